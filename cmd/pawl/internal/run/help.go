// SPDX-License-Identifier: Apache-2.0

package run

const runHelp = `Take the lock NAME, run COMMAND, and give the lock back. pawl itself prints
nothing unless it has to wait or fails, and the exit code is the command's own.

Flags go before the command, on either side of NAME. From the command's first
word on, everything belongs to the command. "--" is needed only if the command
begins with "-".

The command gets stdin, stdout, stderr and the terminal, and in its environment
PAWL_LOCK, PAWL_LEASE, PAWL_LEASE_STORE (without its password) and PAWL_TOKEN,
a number that grows with every lease: send it along with what you write, so that
the receiver can refuse an older one. It is empty on a Redis with
?mode=efficiency, which has no tokens. PAWL_HELD lists the locks of all pawl run
around it: to take the same lock again inside fails at once, and a lock whose
holder waits for one of them fails after a second. Nothing of this changes which
lock a pawl run inside the command takes: PAWL_STORE is as you have set it.

The command does not inherit $PAWL_REDIS_PASSWORD and its kind (on Linux). A
pawl run inside finds them all the same, if the same user runs it on the same
machine: PAWL_KEEPERS has the process ids of those that were given them. For
others, such as a container, there is --keep-passwords.

Others are shown who you are, --why, and of the command the program and its
subcommand. What is behind them may be a password: it is shown if you ask for
it, with --publish-command-line.

With --shared, others that use --shared can have the lock too, but nobody else:
they are readers, and a command without it is a writer. With --slots 3, three
can have it at a time. redlock has no slots; a directory has neither on other
systems than Linux. Readers do not keep a writer waiting for ever.

A Redis server that has just started grants nothing for the longest --ttl that
is used with it (at least 30s), since it may have forgotten a lock. See pawl
bless --help.

If the lock is lost (somebody broke it, --max-hold is over, or it could not be
renewed), all processes that come from the command get TERM, --grace later
KILL, and KILL in any case before others can have the lock. If pawl itself is
killed, a guard process does the same. Signals that pawl gets go to the
command; the second INT or TERM that pawl gets kills it. Ctrl-C goes from the
terminal to the command alone, as often as it is pressed.

What the command leaves running when it ends keeps the lock until it has ended
too, on every store: pawl waits for it, and after a second says for what. INT
and TERM go to it then. With --leftovers kill it is ended instead, and with
--leftovers release it goes on without the lock.

With --min-hold 5m pawl keeps the lock until it has had it for five minutes, if
the command ends before. So a short job that cron starts on several machines
runs on one of them, as long as their clocks are not further apart than that.
INT and TERM end the wait, and give the lock back.

Exit codes:
  N        the command's own
  128+N    the command, or pawl while it waited, was ended by signal N
  64       mistake in the command line
  69       the store cannot be reached, or grants nothing yet after a restart
  71       the system could not start a process, or write the output
  75       busy: somebody else has the lock (another code: --busy-code)
  77       not allowed to use the store
  78       mistake in the configuration, such as the store's URL
  79       the lock was lost, and the command stopped
  126/127  the command cannot be executed / was not found

On Windows there is neither a guard nor a TERM: a command is killed alone,
without what it has started. On other systems than Linux, processes that left
the command's process group are not found, neither to end them nor to wait for
them.`
