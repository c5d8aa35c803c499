// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
	"github.com/pawl-go/pawl/driver"
)

const watchHelp = `Watch prints a line for each event of the locks NAME, until Ctrl-C. Without NAME
it watches all locks. A NAME that ends in "/" means all names below it.

  held      somebody has held the lock since before watch began
  granted   somebody got the lock
  waiting   somebody began to wait
  left      a waiter stopped waiting, and did not get the lock
  overdue   a lease has not been renewed for half of its time
  renewed   an overdue lease was renewed
  released  a lease was released or broken
  expired   an overdue lease ended
  ended     a lease ended while pawl could not see how: between two answers of
            the store more time passed than the lease had left
  unread    the record of this lock is damaged; the last known state stays
  silent    the store does not answer
  answers   the store answers again
  closed    the store grants nothing for a while, as after a restart
  open      the store grants leases again

Watch asks the store once a second, or less often if listing takes long, and
says so. It does not see what begins and ends in between. On a terminal it
shortens lines to fit; --json prints an object for each event, with all that
pawl show --json has of a holder or waiter.

It exits with 69 if the store does not answer at the start; later it waits for
the store. Others: see pawl run --help.`

// watching is one run of "pawl watch".
type watching struct {
	*cli.App
	names []string
	store *stores.Store
	past  *history.History
	seen  history.Store
	last  uint64 // the greatest ID of a span so far
	out   waiting.Outage

	damaged []string // names with unreadable records in the last look
	slow    history.Slowness
}

func watchCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [NAME...]",
		Short: "Print what happens to locks",
		Long:  watchHelp,
		Example: `  pawl watch
  pawl watch deploy nightly/
  pawl watch --json | jq -c 'select(.event == "expired")'`,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return a.CompleteName(cmd, nil, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := stores.CheckName(name, a.Store); err != nil {
					return err
				}
			}
			w := &watching{App: a, names: args, past: history.New(0)}
			return w.run(cmd.Context())
		},
	}
	a.JSONFlag(cmd)
	return cmd
}

// run prints the changes in each look until nobody reads the output. A signal ends the process.
func (w *watching) run(ctx context.Context) (err error) {
	if w.store, err = w.Open(); err != nil {
		return err
	}
	defer w.store.Close()
	w.seen.Name = w.store.URL.String()
	for first := true; ; first = false {
		began := time.Now()
		look := history.Ask(ctx, w.store.Client, w.list)
		if first && len(look.Infos) == 0 && !look.Answered() {
			return exit.OfStore(look.Err, w.seen.Name)
		}
		for _, c := range w.changes(&look, began) {
			if err := w.tell(c); err != nil {
				return err
			}
		}
		if f, ok := w.Stdout.(*os.File); ok && display.NobodyReads(f) {
			return nil
		}
		w.slow.Tell(w.Stderr, &look)
		time.Sleep(look.Pace() - time.Since(began))
	}
}

// one reports whether the user watches a single lock. Inspect is cheaper than List.
func (w *watching) one() bool { return len(w.names) == 1 && !strings.HasSuffix(w.names[0], "/") }

// list returns the locks that the user watches.
func (w *watching) list(ctx context.Context) ([]*pawl.Info, error) {
	if w.one() {
		info, err := w.store.Inspect(ctx, w.names[0])
		if err != nil {
			return nil, err
		}
		return []*pawl.Info{info}, nil
	}
	infos, err := w.store.List(ctx, commonPrefix(w.names))
	return slices.DeleteFunc(infos, func(info *pawl.Info) bool { return !w.wants(info.Name) }), err
}

func (w *watching) wants(name string) bool {
	return len(w.names) == 0 || slices.ContainsFunc(w.names, func(want string) bool {
		return name == want || strings.HasSuffix(want, "/") && strings.HasPrefix(name, want)
	})
}

// commonPrefix returns the longest common prefix of names.
func commonPrefix(names []string) string {
	if len(names) == 0 {
		return ""
	}
	prefix := names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return strings.ToValidUTF8(prefix, "")
}

// changes returns the changes since the last look. began is when the request for look began.
func (w *watching) changes(look *history.Look, began time.Time) []change {
	all := append(w.silence(look, began), w.unread(look)...)
	first := w.seen.Asked.IsZero()
	spans, _ := w.past.Take(&w.seen, look)
	for _, sp := range spans {
		if sp.State == "granted" {
			continue // the event for its lease includes the wait
		}
		c := change{Event: w.event(sp, look.At, first), Name: sp.Name, Holder: sp.Holder, Waiter: sp.Waiter}
		if c.Event == "granted" && sp.Waited != nil {
			c.Waiter, c.Seconds = sp.Waited.Waiter, float64(sp.Waited.To-sp.Waited.From)/1000
		} else if sp.To != 0 {
			c.Seconds = float64(sp.To-sp.From) / 1000
		} else if first {
			c.Seconds = float64(look.At.UnixMilli()-sp.From) / 1000
		}
		if c.Event == "closed" {
			c.State = w.seen.State
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, inOrder)
	for i := range all {
		all[i].Schema, all[i].Time, all[i].Store = report.Schema, look.At, w.seen.Name
	}
	return all
}

// beginAndEnd has the events of spans that are no lease.
var beginAndEnd = map[string]struct{ begin, end string }{
	"quarantine": {"closed", "open"},
	"wait":       {"waiting", "left"},
}

// event returns the name of the event that happened to a span, which a look at now has shown. first is set in the first look.
func (w *watching) event(sp *history.Span, now time.Time, first bool) string {
	begun, ended := sp.ID > w.last, sp.To != 0
	w.last = max(w.last, sp.ID)
	if what, ok := beginAndEnd[sp.What]; ok && ended {
		return what.end
	} else if ok {
		return what.begin
	}
	switch {
	case ended && sp.State == "expired":
		return "expired"
	case ended && !sp.Holder.Expires.IsZero() && !now.Before(sp.Holder.Expires):
		return "ended"
	case ended:
		return "released"
	case begun && first:
		return "held"
	case begun:
		return "granted"
	case sp.State == "overdue":
		return "overdue"
	}
	return "renewed"
}

// unread returns an event for each name that has become unreadable.
func (w *watching) unread(look *history.Look) (all []change) {
	damaged, only := driver.Unread(look.Err)
	if look.Err != nil && !only {
		return nil // this look says nothing about any record
	}
	var names []string
	for _, e := range damaged {
		names = append(names, e.Name)
		if w.wants(e.Name) && !slices.Contains(w.damaged, e.Name) {
			text := strings.TrimPrefix(exit.Plain(e), pawl.ErrUnavailable.Error()+": ")
			all = append(all, change{Event: "unread", Name: e.Name, Error: text, said: e.Name + "  " + text})
		}
	}
	w.damaged = names
	return all
}

// silence returns the event that the store does not answer, or that it answers again, or nothing.
func (w *watching) silence(look *history.Look, began time.Time) []change {
	n := waiting.Notice{Began: began}
	if !look.Answered() {
		n.Failed = look.Err
	}
	if !w.out.Told(&n, look.At) {
		return nil
	}
	if n.Failed == nil {
		return []change{{Event: "answers", Seconds: n.Back.Seconds()}}
	}
	c := change{Event: "silent", Seconds: n.Away.Seconds(), Error: exit.Plain(n.Failed), said: exit.Plain(n.Failed)}
	if errors.Is(n.Failed, pawl.ErrUnavailable) || errors.Is(n.Failed, context.DeadlineExceeded) {
		c.said = n.Silence(w.store.URL)
	}
	return []change{c}
}
