// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

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
