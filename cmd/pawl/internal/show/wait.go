// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/nested"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
)

const waitHelp = `Wait waits until the lock NAME is free: nobody holds it or waits for it, and the
store has not just restarted, when it may have forgotten a lock.

It takes no lock, and somebody may have it when wait returns. To run something
alone, use pawl run, which waits as well.

Wait asks the store about once a second. After a second it prints who holds the
lock. A lease that a program keeps unused (KeepIdle) counts as held. --json
prints the same as pawl show --json, even if the time is over.

Exit codes:
  0        the lock is free
  69       the store cannot be reached, or has not answered for 30s
  75       busy: the lock was not free within --wait
Others: see pawl run --help.`

// freeing is one run of "pawl wait".
type freeing struct {
	*cli.App
	name  string
	wait  cli.Wait
	quiet bool
	store *stores.Store
	state *report.State // of the store, in the last look
}

func waitCommand(a *cli.App) *cobra.Command {
	f := &freeing{App: a}
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a lock is free",
		Long:  waitHelp,
		Example: `  pawl wait deploy
  pawl wait deploy --wait 5m && echo "nobody deploys"`,
		Args:              cli.Args(1, 1, "try: pawl wait deploy"),
		ValidArgsFunction: a.CompleteName,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.name = args[0]
			if err := f.wait.Check(); err != nil {
				return err
			}
			return f.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	f.wait.Flags(fs)
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing while waiting")
	a.JSONFlag(cmd)
	return cmd
}

func (f *freeing) run(ctx context.Context) (err error) {
	if err := stores.CheckName(f.name, f.App.Store); err != nil {
		return err
	}
	if f.store, err = f.Open(); err != nil {
		return err
	}
	defer f.store.Close()
	n, err := f.until(ctx)
	if n.Info == nil {
		return err
	}
	if told := f.Print(showJSON{report.Schema, f.store.URL.String(), report.LockOf(n.Info), f.state}, func(io.Writer) error { return nil }); told != nil {
		return told
	}
	return err
}

// until looks at the lock until it is free or the time is over, and returns the last look.
func (f *freeing) until(ctx context.Context) (waiting.Notice, error) {
	began, pause, told := time.Now(), 20*time.Millisecond, false
	watch := waiting.Outage{Servers: f.store.Guarantees().CrossHost}
	for first := true; ; first = false {
		n, err := f.look(ctx)
		if err == nil {
			err = nested.Surrounding(n.Info, "pawl wait")
		}
		if err != nil || free(n) {
			return n, err
		}
		waited := time.Since(began)
		n.Tell = !told && waited >= waiting.Patience
		if watch.Told(&n, time.Now()) && !f.quiet && f.wait.For != 0 { // with --no-wait there is no wait to tell about
			told = true
			fmt.Fprintln(f.Stderr, display.Printable(n.Line(f.name, f.store.URL)))
		}
		left := time.Hour
		if f.wait.For >= 0 {
			left = f.wait.For - waited
		}
		switch {
		case n.Failed != nil && (first || n.Away > pawl.DefaultTTL || left <= 0):
			return n, exit.Fail(exit.Unavailable, fmt.Sprintf("%q: %s", f.name, n.Silence(f.store.URL)), "check the server and the network")
		case left <= 0:
			return n, f.inVain(n)
		}
		time.Sleep(min(pause, left))
		pause = min(2*pause, n.Pace())
	}
}

// free reports whether a look has found that the lock is free.
func free(n waiting.Notice) bool {
	return n.Info != nil && len(n.Info.Holders)+len(n.Info.Waiters) == 0 && n.Quarantine <= 0
}

// look asks the store about the lock. It returns an error only if it would be useless to ask again.
func (f *freeing) look(ctx context.Context) (waiting.Notice, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	n := waiting.Notice{Ahead: -1, Began: time.Now()}
	info, err := f.store.Inspect(ctx, f.name)
	switch {
	case errors.Is(err, pawl.ErrDenied):
		return n, exit.OfStore(err, f.store.URL.String())
	case errors.Is(err, pawl.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		n.Failed = err
		return n, nil
	case err != nil:
		return n, exit.OfStore(err, f.store.URL.String())
	}
	state, err := f.store.Store(ctx)
	if err == nil {
		f.state, n.Quarantine = report.StateOf(state), state.Closed
	} else if !errors.Is(err, errors.ErrUnsupported) {
		n.Failed = err
		return n, nil
	}
	n.Info = info
	return n, nil
}

// inVain returns the failure for a wait that has timed out.
func (f *freeing) inVain(n waiting.Notice) error {
	text := fmt.Sprintf("%q: not free after %v", f.name, f.wait.For)
	switch {
	case len(n.Info.Holders) > 0:
		return exit.Fail(exit.Busy, text+"; "+display.HeldBy(n.Info), "wait longer, or see: "+f.store.Show(f.name))
	case n.Quarantine > 0:
		return exit.Fail(exit.Unavailable, text+"; "+waiting.ClosedFor(n.Quarantine), "wait longer, or, if nobody can hold a lock, see: pawl bless --help")
	}
	return exit.Fail(exit.Busy, text+fmt.Sprintf("; nobody holds it now, but %d wait", len(n.Info.Waiters)), "see: "+f.store.Show(f.name))
}
