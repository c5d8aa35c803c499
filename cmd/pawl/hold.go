// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
)

const holdHelp = `Take the lock NAME and hold it by hand, as for maintenance: nobody else gets it
until --for is over, or INT or TERM ends pawl. Ctrl-C on the terminal is INT; a
terminal that is closed ends it too. The exit code is 0 then, as the lock was
held all the time.

Whoever meets the lock is shown --why. pawl waits until those that hold it have
let go, readers and slots as well.

A script that wants the lock around some of its own lines can hold it in the
background; but nothing stops the script if the lock is lost, so "pawl run" is
better wherever it will do.

Exit codes:
  0        held until --for was over, or until INT or TERM
  128+N    ended by signal N before it had the lock
  69       the store cannot be reached, or grants nothing yet after a restart
  75       busy: somebody else has the lock
  79       the lock was lost: somebody broke it, or it could not be renewed
The others are those of "pawl run".`

func holdCommand(a *cli.App) *cobra.Command {
	h := &runArgs{wait: cli.ForEver, busyCode: exit.Busy}
	cmd := &cobra.Command{
		Use:   "hold NAME --for DURATION --why TEXT",
		Short: "Hold a lock by hand, as for maintenance",
		Long:  holdHelp,
		Example: `  pawl hold deploy --for 10m --why "the database moves"
  pawl hold deploy --for 1h --why "freeze" --wait 5m`,
		Args:              cli.Args(1, 1, `try: pawl hold deploy --for 10m --why "maintenance"`),
		ValidArgsFunction: a.CompleteName,
		RunE: func(cmd *cobra.Command, args []string) error {
			h.name, h.store, h.connect = args[0], a.Store, a.Connect
			if err := h.checkLease(cmd.Flags()); err != nil {
				return err
			}
			if err := h.checkHold(); err != nil {
				return err
			}
			return runWith(a, h, (*runner).hold)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	cli.DurationVar(fs, &h.holdFor, "for", 0, "hold it for this `DURATION` at most (required)")
	h.waitFlags(fs)
	cli.DurationVar(fs, &h.ttl, "ttl", pawl.DefaultTTL, "`DURATION` after which others get the lock if this machine dies")
	fs.StringVar(&h.why, "why", "", "`TEXT` for whoever meets the lock (required)")
	fs.StringVar(&h.who, "who", os.Getenv("PAWL_WHO"), "`TEXT` to show instead of user and host (default $PAWL_WHO)")
	fs.BoolVar(&h.json, "json", false, "tell events as JSON lines on stderr, instead of text")
	fs.BoolVarP(&h.quiet, "quiet", "q", false, "say nothing while waiting, nor while holding")
	return cmd
}

func (a *runArgs) checkHold() error {
	again := "pawl hold " + display.Quote(a.name) + stores.SameStore(a.store)
	switch {
	case a.holdFor <= 0:
		return exit.Usage("say for how long: a lock that somebody forgets stays locked", "try: "+again+` --for 10m --why "maintenance"`)
	case strings.TrimSpace(a.why) == "":
		return exit.Usage("say why: whoever meets the lock is told", "try: "+again+` --for 10m --why "maintenance"`)
	}
	return nil
}

// hold acquires, waits, releases.
func (r *runner) hold() (int, error) {
	return r.telling("pawl hold", func() (int, error) {
		lease, err := r.acquire()
		if err != nil {
			return 0, err
		}
		r.tell(event{Event: "acquired", Lease: lease.ID(), Token: uint64(lease.Token())})
		if !r.quiet && !r.json {
			r.say(fmt.Sprintf("pawl: holding %q until %s; Ctrl-C or kill %d ends it",
				r.name, time.Now().Add(r.holdFor).Format(time.DateTime), os.Getpid()))
		}
		began := driver.Now()
		lost := r.keep(lease, began.Add(r.holdFor))
		signal.Stop(r.signals) // another one ends us at once: the store may be slow
		released := lease.Release(context.Background())
		if lost != nil {
			r.tell(event{Event: "lost", Lease: lease.ID(), Token: uint64(lease.Token()), Error: errorText(lost)})
			return 0, r.lost(lost, fmt.Sprintf("it was held for %v", driver.ForPeople(driver.Now().Sub(began))))
		}
		r.released(lease, released)
		return 0, nil
	})
}

// keep keeps the lease until end, or until a signal that ends us. It returns an error if the
// lease is lost before.
func (r *runner) keep(lease *pawl.Lease, end driver.Instant) error {
	for {
		if err := lease.Err(); err != nil {
			return err
		}
		left := end.Sub(driver.Now())
		if left <= 0 {
			return nil
		}
		select {
		case sig := <-r.signals:
			if slices.Contains(ending, sig) {
				return nil
			}
		case <-lease.Done():
		case <-time.After(min(left, time.Second)): // timers stand still while the machine sleeps
		}
	}
}
