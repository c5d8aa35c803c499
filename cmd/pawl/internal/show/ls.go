// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
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

func lsCommand(a *cli.App) *cobra.Command {
	order := "name"
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List locks",
		Long: `Ls lists the locks that somebody holds or waits for and whose names begin with
PREFIX. It prints nothing if there are none.

On a terminal it shortens long holders and reasons, so that each lock fits on a
line. pawl show and --json print everything.`,
		Example: `  pawl ls
  pawl ls deploy/
  pawl ls --sort age                 longest held first
  pawl ls --json | jq -r '.locks[].name'`,
		Args:              cli.Args(0, 1, "see pawl ls --help"),
		ValidArgsFunction: a.CompleteName,
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := cli.Prefix(cmd, args)
			if err != nil {
				return err
			}
			return list(a, cmd.Context(), prefix, order)
		},
	}
	cli.ChoiceVar(cmd, &order, "sort", "sort by `COLUMN`: name, age (longest held first) or waiting (most waiters first)", "name", "age", "waiting")
	a.JSONFlag(cmd)
	return cmd
}

func list(a *cli.App, ctx context.Context, prefix, order string) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, stores.ListTime)
	defer cancel()
	infos, failed := s.List(ctx, prefix)
	if failed != nil {
		failed = exit.OfStore(failed, s.URL.String())
		if len(infos) == 0 {
			return failed
		}
	}
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(infos, lsOrders[order])
	out := lsJSON{Schema: report.Schema, Store: s.URL.String(), Locks: []report.Lock{}, State: state}
	for _, info := range infos {
		out.Locks = append(out.Locks, report.LockOf(info))
	}
	err = a.Print(out, func(w io.Writer) error {
		tellClosed(a, state)
		return printTable(w, display.Columns(w), infos)
	})
	return cmp.Or(err, failed) // the locks that could be read are printed first
}

// lsJSON is the output of ls --json.
type lsJSON struct {
	Schema int           `json:"schema"`
	Store  string        `json:"store"`
	Locks  []report.Lock `json:"locks"`
	State  *report.State `json:"state,omitempty"`
}

func printTable(w io.Writer, width int, infos []*pawl.Info) error {
	if len(infos) == 0 {
		return nil
	}
	const name, holder, why = 0, 4, 5
	t := display.Table{{"NAME", "KIND", "FOR", "WAITING", "HOLDER", "WHY"}}
	for _, info := range infos {
		waiting := strconv.Itoa(len(info.Waiters))
		for _, h := range info.Holders {
			kind := cmp.Or(display.Kind(h.Shared, h.Slots), "exclusive")
			reason := cmp.Or(h.Why, "-")
			if h.Transaction != nil {
				reason = fmt.Sprintf("has ended, but an open transaction keeps it: %v", h.Transaction)
			}
			t = append(t, []string{display.Printable(info.Name), kind, display.Age(h.Acquired), waiting,
				display.Printable(h.Holder.String()), display.Printable(reason)})
		}
		if len(info.Holders) == 0 {
			t = append(t, []string{display.Printable(info.Name), "-", "-", waiting, "-", "-"})
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(t.Lines(width, []int{holder, why}, name), "\n"))
	return err
}

// lsOrders has the comparison for each value of --sort. The sort is stable, and the list comes sorted by name.
var lsOrders = map[string]func(a, b *pawl.Info) int{
	"name":    func(a, b *pawl.Info) int { return cmp.Compare(a.Name, b.Name) },
	"age":     func(a, b *pawl.Info) int { return oldest(a).Compare(oldest(b)) },
	"waiting": func(a, b *pawl.Info) int { return cmp.Compare(len(b.Waiters), len(a.Waiters)) },
}

// oldest returns since when a lock has been held. It returns the current time for a lock that nobody holds, so
// that it comes last.
func oldest(info *pawl.Info) time.Time {
	first := time.Now()
	for _, h := range info.Holders {
		if !h.Acquired.IsZero() && h.Acquired.Before(first) {
			first = h.Acquired
		}
	}
	return first
}
