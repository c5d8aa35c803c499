// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/acquire"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
)

const holdHelp = `Hold acquires the lock NAME and holds it until --for is over, or until INT or
TERM, such as Ctrl-C. It also ends when its terminal closes. It exits with 0 if
it held the lock all the time.

Others who want the lock see --why. Hold waits for all holders, readers and
slots included.

Nothing stops your work if the lock is lost. In a script, prefer pawl run.

Exit codes:
  0        held until --for was over, or until INT or TERM
  128+N    signal N ended it before it had the lock
  69       the store does not answer, or grants nothing after a restart
  75       busy: somebody else holds the lock
  79       the lock was lost: somebody broke it, or pawl could not renew it
Others: see pawl run --help.`

// holdArgs is the command line of "pawl hold".
type holdArgs struct {
	acquire.Args
	holdFor time.Duration
}

func holdCommand(a *cli.App) *cobra.Command {
	h := &holdArgs{Args: acquire.Args{App: a, Verb: "hold", BusyCode: exit.Busy}}
	cmd := &cobra.Command{
		Use:   "hold NAME --for DURATION --why TEXT",
		Short: "Hold a lock by hand",
		Long:  holdHelp,
		Example: `  pawl hold deploy --for 10m --why "the database moves"
  pawl hold deploy --for 1h --why "freeze" --wait 5m`,
		Args:              cli.Args(1, 1, `try: pawl hold deploy --for 10m --why "maintenance"`),
		ValidArgsFunction: a.CompleteName,
		RunE: func(cmd *cobra.Command, args []string) error {
			h.Name = args[0]
			if err := h.Check(); err != nil {
				return err
			}
			if err := h.checkHold(); err != nil {
				return err
			}
			return acquire.Run(&h.Args, "pawl hold", h.hold)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	cli.DurationVar(fs, &h.holdFor, "for", 0, "hold the lock for at most this `DURATION` (required)")
	h.WaitFlags(fs)
	cli.DurationVar(fs, &h.TTL, "ttl", pawl.DefaultTTL, "`DURATION` after which others get the lock if this machine dies")
	h.PersonFlags(fs, "`TEXT` that tells others why you hold the lock (required)")
	h.EventFlags(fs)
	fs.BoolVarP(&h.Quiet, "quiet", "q", false, "print nothing while waiting or holding")
	return cmd
}

func (h *holdArgs) checkHold() error {
	again := "pawl hold " + display.Quote(h.Name) + stores.SameStore(h.App.Store)
	switch {
	case h.holdFor <= 0:
		return exit.Usage("--for is missing: it limits how long a forgotten lock stays locked", "try: "+again+` --for 10m --why "maintenance"`)
	case strings.TrimSpace(h.Why) == "":
		return exit.Usage("--why is missing: it is shown to everyone who finds the lock taken", "try: "+again+` --for 10m --why "maintenance"`)
	}
	return nil
}

// hold acquires the lock, keeps it for holdFor, and releases it.
func (h *holdArgs) hold(s *acquire.Session) (int, error) {
	lease, err := s.Acquire()
	if err != nil {
		return 0, err
	}
	s.Tell(acquire.About("acquired", lease, nil))
	s.Note(fmt.Sprintf("pawl: holding %q until %s; Ctrl-C or kill %d ends it",
		h.Name, time.Now().Add(h.holdFor).Format(time.DateTime), os.Getpid()))
	began := driver.Now()
	lost := s.Keep(lease, began.Add(h.holdFor))
	signal.Stop(s.Signals) // the next signal ends us at once, because the release may be slow
	released := lease.Release(context.Background())
	if lost != nil {
		s.Tell(acquire.About("lost", lease, lost))
		return 0, s.Lost(lost, fmt.Sprintf("it was held for %v", driver.ForPeople(driver.Now().Sub(began))))
	}
	s.Released(lease, released)
	return 0, nil
}
