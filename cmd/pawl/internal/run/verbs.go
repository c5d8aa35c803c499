// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

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

const electHelp = `Elect keeps COMMAND running in one place. Of all callers of "pawl elect NAME"
one leads and runs COMMAND; the others wait to take over. A leader that loses
the lock stops COMMAND, as pawl run does, and waits for the lock again. Each
term has a larger PAWL_TOKEN.

When COMMAND ends by itself, pawl exits with its code, and another caller leads.
--max-hold limits a term, so that another caller can lead.

Elect has the flags, environment and exit codes of pawl run, but always waits,
and goes on after a lost lock.`

const (
	minElectPause = 100 * time.Millisecond
	maxElectPause = 5 * time.Second
)

// terms leads again and again, until the command ends by itself. If the store is
// unavailable, it goes on only if the store has answered before.
func (r *runner) terms(path string) (int, error) {
	pause := minElectPause
	for {
		began := time.Now()
		code, err := r.once(path)
		var f *exit.Failure
		if !errors.As(err, &f) {
			return code, err
		}
		if f.Kind != exit.Kinds[exit.Lost] && !(r.Known && f.Kind == exit.Kinds[exit.Unavailable]) {
			return code, err
		}
		r.Note(strings.TrimSuffix(f.Line(), "; "+f.Hint) + "; waiting to lead again")
		if time.Since(began) > time.Minute {
			pause = minElectPause
		}
		if err := r.rest(pause); err != nil {
			return 0, err
		}
		pause = min(2*pause, maxElectPause)
	}
}

// rest waits for d. It returns an error if a signal ends pawl.
func (r *runner) rest(d time.Duration) error {
	over := time.After(d)
	for {
		select {
		case sig := <-r.Signals:
			if err := r.Signalled(sig); err != nil {
				return err
			}
		case <-over:
			return nil
		}
	}
}

const onceHelp = `Once runs COMMAND once in each period of --per, on one of the machines that call
it. The first call in a period runs COMMAND. The others do nothing and exit with
0, or with --busy-code.

When COMMAND succeeds, pawl keeps running and holds the lock until nine tenths
of --per have passed since it got the lock. So a call may come a tenth of --per
early: clocks differ, and a day in spring has 23 hours. Start it from cron or a
service, not in the middle of a script. INT and TERM release the lock.

When COMMAND fails, pawl releases the lock and exits with its code. The next
call in the period runs COMMAND again. If it must not, use:

  pawl run NAME -n -E 0 --min-hold 20h -- COMMAND

Pawl keeps no record of past runs. If the process that holds the lock is killed,
or its machine restarts, COMMAND may run again in the same period: after --ttl,
on a directory at once.

Once has the flags, environment and exit codes of pawl run, but busy is 0.`

// checkTurn checks --per, and computes from it how long to keep the lock.
func (a *runArgs) checkTurn() error {
	if a.Verb != "once" {
		return nil
	}
	if a.per <= 0 {
		return exit.Usage("--per is missing", "try: pawl once --per 24h "+display.Quote(a.Name)+" -- "+display.CommandLine(a.command))
	}
	// The next call must find the lock free even if it comes early: by a second if cron was late
	// this time, or by an hour on the day on which clocks go forward.
	a.minHold = a.per - a.per/10
	return nil
}

// keeps returns the flag that keeps the lock after the command has ended, or "" if pawl releases the lock.
func (r *runner) keeps(status job.Status, left time.Duration) string {
	switch {
	case left <= 0, r.args.Verb == "once" && status.ExitCode() != 0:
		return ""
	case r.args.Verb == "once":
		return fmt.Sprintf("--per %v", r.args.per)
	}
	return "--min-hold"
}
