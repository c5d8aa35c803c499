// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

const onceHelp = `Run COMMAND once in each turn of length --per; then pawl has to stay, as a
process that holds NAME, until the turn is nearly over. If that process is
killed or its machine restarts, COMMAND may run once more in the same turn.

"pawl once NAME" may be called anywhere: the first call in a turn runs COMMAND,
the others do nothing and exit with 0 at once. So cron may start it on several
machines, whose clocks differ, and one of them runs it.

When the command has succeeded, pawl keeps the lock until nine tenths
of --per are over since it got it: a turn may come early, as when clocks are put
forward in spring. As it stays for so long, start it from a crontab or a
service, not in the middle of a script. INT and TERM end the wait, and give the
lock back.

A command that fails, or that a signal ends, has not been run in this sense:
pawl gives the lock back and exits with its code at once, and whoever comes next
in the same turn runs it once more. If it must not be started again even so:
pawl run NAME -n -E 0 --min-hold 20h -- COMMAND

pawl keeps no record of what has run. If this machine dies or restarts, others
get the lock after --ttl; on a directory at once when pawl is killed.

The flags, the environment of the command and the exit codes are those of
"pawl run", but that busy is 0: it runs, or has run.`

// checkTurn derives from --per for how long the lock is kept.
func (a *runArgs) checkTurn() error {
	if a.Verb != "once" {
		return nil
	}
	if a.per <= 0 {
		return exit.Usage("say how often", "try: pawl once --per 24h "+display.Quote(a.Name)+" -- "+display.CommandLine(a.command))
	}
	// The next turn must find the lock free, though it begins a bit early: by a second where cron
	// is late today, by an hour on the day on which clocks are put forward.
	a.minHold = a.per - a.per/10
	return nil
}

// keeps says why the lock is kept when the command has ended, or returns "" if it is not.
func (r *runner) keeps(status job.Status, left time.Duration) string {
	switch {
	case left <= 0, r.args.Verb == "once" && status.ExitCode() != 0:
		return ""
	case r.args.Verb == "once":
		return fmt.Sprintf("--per %v", r.args.per)
	}
	return "--min-hold"
}
