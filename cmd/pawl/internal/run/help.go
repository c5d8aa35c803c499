// SPDX-License-Identifier: Apache-2.0

package run

const runHelp = `Run acquires the lock NAME, runs COMMAND, and releases the lock. It exits with
the code of COMMAND, and prints nothing unless it waits or fails.

Flags come before or after NAME. Everything from the first word of COMMAND on
belongs to COMMAND. Write "--" before a COMMAND that begins with "-".

A lock is lost when somebody breaks it, when --max-hold is over, or when pawl
cannot renew it. Pawl then ends every process that COMMAND started: TERM first,
KILL after --grace, and KILL in any case before anybody else can get the lock.
If pawl is killed, a guard process does the same. If the guard is killed, pawl
ends the processes and exits with 71.

Processes that COMMAND leaves running keep the lock until they end. After a
second pawl names them. --leftovers kill ends them, --leftovers release lets
them go on without the lock.

Pawl passes signals on to COMMAND. A second INT or TERM kills it. Ctrl-C goes
from the terminal to COMMAND alone.

Commands with --shared hold the lock together, as readers do, and exclude those
without. --slots 3 lets three hold the lock. Readers never keep a writer out
forever. The table in docs/guarantees says which stores have readers and slots.

--min-hold 5m holds the lock for five minutes even if COMMAND is faster. A short
job that cron starts on several machines then runs on one of them, if their
clocks differ by less. INT and TERM release the lock.

Others see your user and host, --why, and of COMMAND the program and its
subcommand. Arguments may be secret: --publish-command-line shows them.

After a restart a Redis server grants nothing for the longest --ttl in use, at
least 30s, because it may have forgotten a lock: see pawl bless --help.

Environment of COMMAND:
  PAWL_LOCK         the name of the lock
  PAWL_LEASE        the id of the lease
  PAWL_LEASE_STORE  the URL of the store, without its password
  PAWL_TOKEN        the fencing token, which grows with every lease. Send it
                    with what you write, so that the receiver can refuse an
                    older one. It is unset with ?mode=efficiency
  PAWL_HELD         the leases of all pawl run around COMMAND. A pawl run in
                    COMMAND fails if it would wait for one of them, at once
                    or, in a deadlock, after a second
  PAWL_KEEPERS      process ids of pawl run that have passwords of stores

PAWL_STORE stays as you set it: these variables never change which lock a pawl
run in COMMAND takes. On Linux COMMAND does not inherit $PAWL_REDIS_PASSWORD,
$PAWL_ZK_PASSWORD, $PAWL_ETCD_PASSWORD and $PAWL_POSTGRES_PASSWORD. A pawl run
in COMMAND reads them from the processes in PAWL_KEEPERS. In a container, or as
another user, it cannot: use --keep-passwords.

Exit codes:
  N        the code of COMMAND
  128+N    signal N ended COMMAND, or pawl while it waited
  64       wrong usage
  69       the store does not answer, or grants nothing after a restart
  71       the system cannot start a process or write output
  75       busy: somebody else holds the lock (change it with --busy-code)
  77       the store refuses this user
  78       wrong configuration, such as the URL of the store
  79       the lock was lost, and pawl ended COMMAND
  126/127  COMMAND cannot be executed / was not found

Windows has no guard and no TERM: pawl kills COMMAND alone. Except on Linux,
pawl does not find processes that left the process group of COMMAND.`
