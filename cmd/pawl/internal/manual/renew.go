// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

const renewHelp = `Renew renews a lease of "pawl acquire", and prints until when the lock is held,
in UTC by the clock of this machine: 2026-03-09T14:03:30Z. Until then nobody
else gets the lock, unless somebody breaks the lease. A renewal never shortens
a lease.

If the lease has ended, renew exits with 79, even if nobody has held the lock
since: the script has lost the lock. After 69 the outcome is unknown: the time
printed before still holds, and you can try again.

Leases of pawl run, pawl hold and programs are refused: their own process renews
them. On etcd --ttl cannot exceed that of pawl acquire.

Exit codes:
  0        renewed
  69       the store does not answer, or may have forgotten how the lease
           ended, as after a restart
  71       renewed, but pawl cannot print the time
  79       the store no longer has the lease, or it is not of this name
Others: see pawl run --help.`

const releaseHelp = `Release releases a lease of "pawl acquire". The next waiter gets the lock.

It ends this lease and no other. If the lease has ended before, release exits
with 79: the script lost the lock while it worked. After 69 the outcome is
unknown: try again, where 79 can mean that the first try worked, or let the
store end the lease.

Leases of pawl run, pawl hold and programs are refused: their process would hear
of it too late. Use pawl break, which tells them.

Exit codes:
  0        released
  69       the store does not answer, or may have forgotten how the lease
           ended, as after a restart
  71       released, but pawl cannot print the JSON
  79       the store no longer has the lease, or it is not of this name
Others: see pawl run --help.`

// adoption is one run of "pawl renew" or "pawl release".
type adoption struct {
	*cli.App
	verb  string
	name  string
	lease string
	ttl   time.Duration // renew only
}

func renewCommand(a *cli.App) *cobra.Command {
	r := &adoption{App: a, verb: "renew"}
	cmd := r.command(&cobra.Command{
		Use:   "renew NAME --lease ID",
		Short: "Renew a lease of pawl acquire",
		Long:  renewHelp,
		Example: `  pawl renew deploy --lease "$lease" --ttl 20s
  until=$(pawl renew deploy --lease "$lease") || exit
  [ "$(date -u +%FT%TZ)" \< "$until" ] && ./next-step`,
	}, (*adoption).renew)
	cli.DurationVar(cmd.Flags(), &r.ttl, "ttl", pawl.DefaultTTL, "`DURATION` after which the store ends the lease if it is not renewed")
	a.JSONFlag(cmd)
	return cmd
}

func releaseCommand(a *cli.App) *cobra.Command {
	r := &adoption{App: a, verb: "release"}
	cmd := r.command(&cobra.Command{
		Use:     "release NAME --lease ID",
		Short:   "Release a lease of pawl acquire",
		Long:    releaseHelp,
		Example: `  pawl release deploy --lease "$lease"`,
	}, (*adoption).release)
	a.JSONFlag(cmd)
	return cmd
}

// command completes cmd: it adds the arguments and --lease, and makes cmd call do.
func (r *adoption) command(cmd *cobra.Command, do func(*adoption, context.Context, *stores.Store, *participant.Adopted) error) *cobra.Command {
	cmd.Args = cli.Args(1, 1, `try: pawl `+r.verb+` deploy --lease "$lease"`)
	cmd.ValidArgsFunction = r.CompleteName
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.name = args[0]
		return r.run(cmd.Context(), do)
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&r.lease, "lease", "", "the `ID` that pawl acquire printed (required)")
	return cmd
}

func (r *adoption) check() error {
	switch err := stores.CheckName(r.name, r.App.Store); {
	case err != nil:
		return err
	case r.lease == "":
		return exit.Usage("say which lease: the id that pawl acquire printed", fmt.Sprintf("try: pawl %s %s%s --lease ID; is a variable in your script unset?", r.verb, display.Quote(r.name), stores.SameStore(r.App.Store)))
	case strings.ContainsFunc(r.lease, notOfID):
		return exit.Usage(fmt.Sprintf("--lease %q is not the id of a lease", display.Shorten(r.lease, 40)), "use the first word that pawl acquire printed")
	case r.verb == "renew" && r.ttl < driver.MinTTL:
		return exit.Usage(fmt.Sprintf("--ttl %v is too short", r.ttl), fmt.Sprintf("use at least %v, better the one of pawl acquire", driver.MinTTL))
	}
	return noFiles(r.App, r.name)
}

func notOfID(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_", r))
}

// adoptWithin limits the time for all requests to the store together.
const adoptWithin = 5 * time.Second

func (r *adoption) run(ctx context.Context, do func(*adoption, context.Context, *stores.Store, *participant.Adopted) error) error {
	if err := r.check(); err != nil {
		return err
	}
	s, err := stores.Open(r.App.Store, r.Connect, &pawl.Options{TTL: r.ttl}, false)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, adoptWithin)
	defer cancel()
	if err := outlives(s, r.name); err != nil {
		return err
	}
	g, err := participant.Adopt(ctx, s.Wire, r.name, r.lease)
	if err == nil {
		err = r.ours(ctx, s)
	}
	if err == nil {
		err = do(r, ctx, s, g)
	}
	return r.failure(ctx, s, err)
}

// ours returns an error if the lease does not come from pawl acquire: its own process renews it.
func (r *adoption) ours(ctx context.Context, s *stores.Store) error {
	info, err := s.Inspect(ctx, r.name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(info.Holders, func(h pawl.Held) bool { return h.Lease == r.lease })
	if i < 0 || info.Holders[i].Command == waiting.AcquireCommand { // if the lease has just ended, the next request tells
		return nil
	}
	return exit.Usage(fmt.Sprintf("%q: this lease does not come from pawl acquire, and its own process renews it; %s", r.name, display.HeldBy(info)),
		"end it with: pawl break "+display.Quote(r.name)+s.Flag+" --lease "+r.lease+" --why TEXT")
}

func (r *adoption) renew(ctx context.Context, s *stores.Store, g *participant.Adopted) error {
	since, err := g.Renew(ctx, r.ttl)
	if err != nil {
		return err
	}
	until := wholeSecond(time.Now().Add(since.Add(r.ttl - driver.Drift(r.ttl)).Sub(driver.Now())))
	return r.done(s, g, until, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, until.Format(time.RFC3339))
		return err
	})
}

// done prints the result. If that fails, the lease stays renewed or released, and the failure says so.
func (r *adoption) done(s *stores.Store, g *participant.Adopted, until time.Time, text func(io.Writer) error) error {
	err := r.Print(leaseJSON{report.Schema, s.URL.String(), r.name, r.lease, uint64(g.Token()), until}, text)
	if err == nil {
		return nil
	}
	how := "given back"
	if !until.IsZero() {
		how = "renewed, until " + until.Format(time.RFC3339)
	}
	return exit.Fail(exit.System, fmt.Sprintf("%q: the lease is %s, but %v", r.name, how, err), "check the disk with df -h, and where the output goes")
}

func (r *adoption) release(ctx context.Context, s *stores.Store, g *participant.Adopted) error {
	if err := g.Release(ctx); err != nil {
		return err
	}
	return r.done(s, g, time.Time{}, func(io.Writer) error { return nil })
}

func (r *adoption) failure(ctx context.Context, s *stores.Store, err error) error {
	var lost *driver.LostError
	var closed *driver.ClosedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*exit.Failure)):
		return err
	case errors.As(err, &closed):
		return exit.Fail(exit.Unavailable, fmt.Sprintf("%q: %s, and may have forgotten how this lease ended", r.name, waiting.ClosedFor(closed.Left)),
			"the lease is held until the time printed before; try again then")
	case errors.Is(err, errors.ErrUnsupported):
		return exit.Fail(exit.Config, strings.TrimSuffix(exit.Plain(err), ": "+errors.ErrUnsupported.Error()), "use a shorter --ttl, or a longer one with pawl acquire")
	case !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrReleased):
		return exit.OfStore(err, s.URL.String())
	}
	text := fmt.Sprintf("%q: the store no longer has this lease", r.name)
	if errors.As(err, &lost) && lost.Reason == pawl.ReasonBroken {
		text = fmt.Sprintf("%q: %v", r.name, lost)
	}
	if info, err := s.Inspect(ctx, r.name); err == nil && len(info.Holders) > 0 {
		text += "; " + display.HeldBy(info)
	}
	return exit.Fail(exit.Lost, text, "check the name and the id: "+s.Show(r.name))
}
