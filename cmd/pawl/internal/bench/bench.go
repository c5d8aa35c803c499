// SPDX-License-Identifier: Apache-2.0

// Package bench is "pawl bench", which measures what a lock costs in a store.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

const (
	benchPrefix = "pawl-bench/"
	benchMany   = 64 // goroutines
)

func Command(a *cli.App) *cobra.Command {
	var each time.Duration
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what locks cost in a store",
		Long: `Bench measures, from this machine, what locks cost in a store:

  a round trip, a question about a lock that nobody holds
  the same after 10 ms of rest, when everything takes longer
  acquire and release, one after the other
  the same with KeepIdle, where a client keeps a lock until others want it
  the same by 64 at a time, each with a lock of its own
  a hand-off, from release to the return of another client's acquire. The lock
  was held for 10 ms, so compare it with the round trip after a rest

It releases all its locks, which are called pawl-bench/…. One bench at a time
runs in a store. 64 at a time is load that other users may notice.`,
		Example: `  pawl bench --store redis://localhost:6379
  pawl bench --for 5s --json`,
		Args: cli.Args(0, 0, "try: pawl bench --store redis://localhost:6379"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if each <= 0 || each > time.Minute {
				return exit.Usage(fmt.Sprintf("--for %v is not between 0 and 1m", each), "use something like 2s")
			}
			return measure(a, cmd.Context(), each)
		},
	}
	cli.DurationVar(cmd.Flags(), &each, "for", 2*time.Second, "measure each part for this `DURATION`")
	a.JSONFlag(cmd)
	return cmd
}

// benchJSON is the output of bench --json. Durations are in nanoseconds.
type benchJSON struct {
	Schema int    `json:"schema"`
	Store  string `json:"store"`

	RoundTrip benchPart `json:"round_trip"`
	Rested    benchPart `json:"round_trip_rested"` // each 10 ms after the last one
	Pair      benchPart `json:"acquire_release"`
	Many      benchPart `json:"acquire_release_64"`
	HandOff   benchPart `json:"hand_off"`

	Kept *benchPart `json:"acquire_release_kept,omitempty"` // with KeepIdle, on stores that support it
}

type benchPart struct {
	Count      int           `json:"count"`
	PerSecond  float64       `json:"per_second"`
	P50        time.Duration `json:"p50_ns"`
	P99        time.Duration `json:"p99_ns"`
	RoundTrips float64       `json:"round_trips,omitempty"` // P50 in round trips, where there is a network
}

func measure(a *cli.App, ctx context.Context, each time.Duration) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	other, err := a.Open()
	if err != nil {
		return err
	}
	defer other.Close()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case sig := <-signals:
			a.Interrupted = sig == syscall.SIGINT
			cancel(exit.Interrupted(sig))
		case <-ctx.Done():
		}
	}()

	out := benchJSON{Schema: report.Schema, Store: s.URL.String()}
	m := &meter{store: s, other: other, each: each}
	err = s.TryDo(ctx, benchPrefix+"running", func(ctx context.Context, _ *pawl.Lease) error { return m.run(ctx, &out) }, pawl.Why("pawl bench"))
	if f := new(exit.Failure); errors.As(context.Cause(ctx), &f) {
		return f
	}
	if errors.Is(err, pawl.ErrHeld) {
		return exit.Fail(exit.Busy, exit.Plain(err), "another pawl bench measures this store: try again when it has ended")
	}
	if err != nil {
		return exit.OfStore(err, out.Store)
	}
	return a.Print(out, func(w io.Writer) error { return out.text(w, s.Guarantees().CrossHost) })
}

// text prints the figures as a table, and a sentence about each.
func (out *benchJSON) text(w io.Writer, network bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tp50\tp99\ta second\t")
	trip := "round trip"
	if !network {
		trip = "look"
	}
	for _, row := range []struct {
		name string
		part *benchPart
	}{
		{trip, &out.RoundTrip}, {trip + " after a rest", &out.Rested}, {"acquire and release", &out.Pair}, {"the same, kept", out.Kept},
		{strconv.Itoa(benchMany) + " at a time", &out.Many}, {"hand-off", &out.HandOff},
	} {
		if row.part == nil {
			continue
		}
		fmt.Fprintf(t, "%s\t%v\t%v\t%.0f\t\n", row.name, display.Rounded(row.part.P50), display.Rounded(row.part.P99), row.part.PerSecond)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n"+out.verdict(network))
	return err
}

func (out *benchJSON) verdict(network bool) string {
	if !network {
		return fmt.Sprintf("There is no network in between: a lock costs %v, and a hand-off %v.\n", display.Rounded(out.Pair.P50), display.Rounded(out.HandOff.P50))
	}
	kept := ""
	if out.Kept != nil {
		kept = fmt.Sprintf("With KeepIdle a client takes the same lock again and again in %v instead of %v, with no request, until others want it.\n",
			display.Rounded(out.Kept.P50), display.Rounded(out.Pair.P50))
	}
	return fmt.Sprintf("A lock takes as long as %.1f network round trips; it needs two.\n", out.Pair.RoundTrips) + kept +
		fmt.Sprintf("A hand-off costs %.1f network round trips.\n", out.HandOff.RoundTrips) +
		fmt.Sprintf("%d at a time are %.0f times as fast as one after the other.\n", benchMany, out.Many.PerSecond/max(out.Pair.PerSecond, 1e-9))
}
