// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

type breakArgs struct {
	name  string
	lease string
	force bool
	why   string
	wait  time.Duration
}

func breakCommand(a *cli.App) *cobra.Command {
	b := new(breakArgs)
	cmd := &cobra.Command{
		Use:   "break NAME (--lease ID | --force) --why TEXT",
		Short: "End somebody else's lease",
		Long: `Break ends the lease of somebody else. The holder learns who did it and why, and
pawl run stops its command.

--lease breaks this lease only, and no other that has come since you looked.
--force breaks every lease on the name.

In a file store only the holder can release the lock: break asks it to, and
waits until it has. A program that locks the key with another library, which
?pattern= allows, is not told and may go on.

If nobody holds the lock, break exits with 66: the name may be misspelt.`,
		Example: `  pawl show deploy                        prints the id of the lease
  pawl break deploy --lease 7kx2… --why "hangs since 3 am"
  pawl break deploy --force --why "rolled back"`,
		Args:              cli.Args(1, 1, `try: pawl break deploy --force --why "it hangs"`),
		ValidArgsFunction: a.CompleteName,
		RunE: func(cmd *cobra.Command, args []string) error {
			b.name = args[0]
			return breakLease(a, cmd.Context(), b)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&b.lease, "lease", "", "break this lease only: the `ID` from pawl show")
	fs.BoolVar(&b.force, "force", false, "break every lease on the name")
	fs.StringVar(&b.why, "why", "", "`TEXT` for the holder (required)")
	b.wait = 30 * time.Second
	fs.VarP((*cli.Duration)(&b.wait), "wait", "w", "wait at most this `DURATION` for the lease to end")
	a.JSONFlag(cmd)
	return cmd
}

func (b *breakArgs) check(store string) error {
	again := "pawl break " + display.Quote(b.name) + stores.SameStore(store)
	switch err := stores.CheckName(b.name, store); {
	case err != nil:
		return err
	case (b.lease == "") == !b.force:
		return exit.Usage("say which lease to break: either --lease ID or --force",
			"see its id with: pawl show "+display.Quote(b.name)+stores.SameStore(store))
	case strings.TrimSpace(b.why) == "":
		return exit.Usage("--why is missing: the holder is shown the reason", "try: "+again+` --force --why "it hangs"`)
	case b.wait <= 0:
		return exit.Usage(fmt.Sprintf("--wait %v is not positive", b.wait), "try: "+again+" --wait 30s")
	}
	return nil
}

func breakLease(a *cli.App, ctx context.Context, b *breakArgs) error {
	if err := b.check(a.Store); err != nil {
		return err
	}
	s, err := a.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	leases, err := b.leases(ctx, s)
	if err != nil {
		return err
	}
	out := report.Broken{Schema: report.Schema, Store: s.URL.String(), Name: b.name, Broken: []string{}}
	for _, id := range leases {
		err := s.Break(ctx, b.name, id, b.why)
		if b.force && (errors.Is(err, pawl.ErrReleased) || kept(infoOf(err), id) != nil) {
			continue // it has ended by itself since we listed it
		}
		if err != nil {
			return b.failure(s, err)
		}
		out.Broken = append(out.Broken, id)
	}
	if info, err := s.Inspect(ctx, b.name); err == nil {
		tx := kept(info, "")
		if tx != nil && len(out.Broken) == 0 {
			return b.stays(tx)
		}
		if tx != nil {
			fmt.Fprintln(a.Stderr, display.Printable(fmt.Sprintf("pawl: warning: an open transaction that the lease guards keeps %q: %v; %s", b.name, tx, tx.End())))
		}
	}
	return a.Print(out, func(w io.Writer) error {
		if len(out.Broken) == 0 {
			_, err := fmt.Fprintf(w, "%q is free: the lease that was there has ended by itself\n", b.name)
			return err
		}
		_, err := fmt.Fprintf(w, "broke %q: lease %s\n", b.name, strings.Join(out.Broken, ", "))
		return err
	})
}

// leases returns the ids of the leases to break.
func (b *breakArgs) leases(ctx context.Context, s *stores.Store) ([]string, error) {
	if !b.force {
		return []string{b.lease}, nil
	}
	info, err := s.Inspect(ctx, b.name)
	if err != nil {
		return nil, exit.OfStore(err, s.URL.String())
	}
	if len(info.Holders) == 0 {
		return nil, b.nobody(s)
	}
	var ids []string
	for _, h := range info.Holders {
		if h.Lease == "" {
			end := fmt.Sprintf("end it with: kill %d", h.PID)
			if h.PID == 0 {
				end = "look again: " + s.Show(b.name)
			}
			return nil, exit.Fail(exit.Busy, fmt.Sprintf("%q is %s; it cannot be asked to release the lock", b.name, display.HeldBy(info)), end)
		}
		ids = append(ids, h.Lease)
	}
	return ids, nil
}

// nobody returns the failure for a name that nobody holds. That is a failure because the name may be
// misspelt.
func (b *breakArgs) nobody(s *stores.Store) error {
	return exit.Fail(exit.Nobody, fmt.Sprintf("nobody holds %q: nothing was broken", b.name), "list the names with: pawl ls"+s.Flag)
}

func (b *breakArgs) failure(s *stores.Store, err error) error {
	look := "look again: " + s.Show(b.name)
	switch {
	case errors.Is(err, pawl.ErrReleased):
		return b.nobody(s)
	case kept(infoOf(err), b.lease) != nil:
		return b.stays(kept(infoOf(err), b.lease))
	case errors.Is(err, pawl.ErrHeld):
		return exit.Fail(exit.Busy, fmt.Sprintf("that lease does not hold the lock: %q is %s", b.name, display.HeldBy(infoOf(err))), look)
	case errors.Is(err, context.DeadlineExceeded):
		text := fmt.Sprintf("%q was not released within %v", b.name, b.wait)
		if e := new(pawl.Error); errors.As(err, &e) { // the store's error says more
			text += ": " + strings.TrimSuffix(e.Err.Error(), ": "+context.DeadlineExceeded.Error())
		}
		return exit.Fail(exit.Busy, text, "the holder has been asked and may still release it: "+look)
	}
	return exit.OfStore(err, s.URL.String())
}

// stays returns the failure for a lease that has ended while a transaction still keeps the name.
func (b *breakArgs) stays(tx *pawl.Transaction) error {
	return exit.Fail(exit.Busy, fmt.Sprintf("%q: the lease has ended, but an open transaction that it guards keeps the name: %v", b.name, tx), tx.End())
}

// kept returns the transaction that keeps the name after the lease has ended, or nil. If lease is
// empty, the transaction may be of any lease.
func kept(info *pawl.Info, lease string) *pawl.Transaction {
	if info == nil {
		return nil
	}
	for _, h := range info.Holders {
		if h.Transaction != nil && (lease == "" || lease == h.Lease) {
			return h.Transaction
		}
	}
	return nil
}

// infoOf returns the holders in a HeldError, or nil for another error.
func infoOf(err error) *pawl.Info {
	held := new(pawl.HeldError)
	errors.As(err, &held)
	return held.Info
}
