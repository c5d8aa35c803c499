// SPDX-License-Identifier: Apache-2.0

// Package show is "pawl ls", "pawl show", "pawl watch" and "pawl wait", which look at locks and
// change nothing.
package show

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
)

// Commands returns ls, show, watch and wait.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{lsCommand(a), showCommand(a), watchCommand(a), waitCommand(a)}
}

func showCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the holder of a lock and who waits for it",
		Long: `Show prints who holds the lock NAME, since when and why, and who waits for it.

It exits with 0 even if nobody holds the lock: do not decide by it, as the
answer may be out of date. Use pawl run --no-wait.

In the JSON, .lock.holders has the token of each lease. .lock.token is the
largest that the store has granted or reserved; the next lease gets a larger
one.`,
		Example: `  pawl show deploy
  pawl show deploy --json | jq .lock.held`,
		Args:              cli.Args(1, 1, "try: pawl show deploy"),
		ValidArgsFunction: a.CompleteName,
		RunE:              func(cmd *cobra.Command, args []string) error { return show(a, cmd, args[0]) },
	}
	a.JSONFlag(cmd)
	return cmd
}

func show(a *cli.App, cmd *cobra.Command, name string) error {
	if err := stores.CheckName(name, a.Store); err != nil {
		return err
	}
	s, err := a.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), a.Connect)
	defer cancel()
	info, err := s.Inspect(ctx, name)
	if err != nil {
		return exit.OfStore(err, s.URL.String())
	}
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	return a.Print(showJSON{report.Schema, s.URL.String(), report.LockOf(info), state}, func(w io.Writer) error {
		tellClosed(a, state)
		return describe(w, info)
	})
}

// tellClosed says on stderr that the store grants nothing, unless it grants leases.
func tellClosed(a *cli.App, state *report.State) {
	if closed := stores.Closed(state); closed != "" {
		fmt.Fprintln(a.Stderr, "pawl: "+closed)
	}
}

// showJSON is the output of show and wait with --json.
type showJSON struct {
	Schema int           `json:"schema"`
	Store  string        `json:"store"`
	Lock   report.Lock   `json:"lock"`
	State  *report.State `json:"state,omitempty"`
}

func describe(w io.Writer, info *pawl.Info) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(key, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", key, display.Printable(fmt.Sprintf(format, args...)))
	}
	row("name", "%s", info.Name)
	if len(info.Holders) == 0 {
		row("held by", "nobody")
		if info.Token != 0 {
			row("last token", "%d", info.Token)
		}
	}
	for _, h := range info.Holders {
		row("held by", "%v", h.Holder)
		if h.Keeps {
			row("", "kept while unused; the program releases it when others want it")
		}
		if h.Orphan {
			row("", "this process has ended; what it started goes on and holds the lock")
		}
		if h.Transaction != nil {
			row("", "this lease has ended; an open transaction that it guards keeps the name: %v", h.Transaction)
			row("", "%s", h.Transaction.End())
		}
		rowIf(row, "kind", display.Kind(h.Shared, h.Slots))
		rowIf(row, "why", h.Why)
		rowIf(row, "lease", h.Lease)
		if h.Token != 0 {
			row("token", "%d", h.Token)
		}
		rowTime(row, "since", h.Acquired)
		rowTime(row, "renewed", h.Renewed)
		rowTime(row, "expires", h.Expires)
	}
	for i, wt := range info.Waiters {
		kind := display.Kind(wt.Shared, wt.Slots)
		if kind != "" {
			kind = " (" + kind + ")"
		}
		since := ""
		if !wt.Since.IsZero() {
			since = ", for " + display.Age(wt.Since)
		}
		row(fmt.Sprintf("waiting %d", i+1), "%v%s%s", wt.Holder, since, kind)
		rowIf(row, "", wt.Why)
	}
	return t.Flush()
}

func rowIf(row func(string, string, ...any), key, text string) {
	if text != "" {
		row(key, "%s", text)
	}
}

func rowTime(row func(string, string, ...any), key string, t time.Time) {
	switch {
	case t.IsZero():
	case time.Until(t) > 0:
		row(key, "%s (in %s)", t.Local().Format(time.RFC3339), time.Until(t).Truncate(time.Second))
	default:
		row(key, "%s (%s ago)", t.Local().Format(time.RFC3339), driver.Ago(t))
	}
}
