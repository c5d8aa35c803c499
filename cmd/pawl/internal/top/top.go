// SPDX-License-Identifier: Apache-2.0

// Package top is "pawl top", which shows locks on the terminal, live.
package top

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
)

const topHelp = `Top shows the locks whose names begin with PREFIX: who holds them, for how long
and why, how many wait, and how long the first has waited. The longest wait
comes first. Above the table are stores that do not answer or are in quarantine,
deadlocks, and locks that were granted four times or more in ten seconds: a
leader that changes that often has a fault. The column WHY marks

  deadlock    the holder waits in a deadlock
  overdue     the lease has not been renewed for half of its time
  orphan      the process has ended; what it started goes on
  quarantine  the store grants nothing for a while, as after a restart

Keys: n, h, a, w and f sort by name, holder, age, waiters and first wait; the
same key again reverses the order. Arrows, Page Up and Page Down move. q quits.

Below 100 columns, holders have no process and command; pawl show has them. Top
asks each store once a second, or less often if listing takes long. --no-color
or $NO_COLOR turns colors off.`

// top is one run of "pawl top".
type top struct {
	*cli.App
	stores []*topStore
	past   *history.History
	order  string // see orders
	turned bool   // the order is reversed
	plain  bool   // no colours
	first  int    // index of the first row on the screen
}

// topStore is what top knows about a store.
type topStore struct {
	history.Store
	source *history.Source
	failed error  // of the last look: some or all locks could not be read
	slow   string // says that looks are rare because listing is slow; see Look.Seldom
}

func Command(a *cli.App) *cobra.Command {
	t := &top{App: a, order: "first", past: history.New(0)}
	var urls []string
	cmd := &cobra.Command{
		Use:   "top [PREFIX]",
		Short: "Show locks on the terminal, live",
		Long:  topHelp,
		Example: `  pawl top
  pawl top deploy/ --sort age
  pawl top -s redis://h1 -s etcd://h2:2379`,
		Args:              cli.Args(0, 1, "see pawl top --help"),
		ValidArgsFunction: a.CompleteName,
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := cli.Prefix(cmd, args)
			if err != nil {
				return err
			}
			sources, err := a.Sources(urls)
			if err != nil {
				return err
			}
			for _, s := range sources {
				s.Prefix = prefix
				st := &topStore{source: s}
				st.Name = s.Name
				t.stores = append(t.stores, st)
			}
			t.plain = t.plain || os.Getenv("NO_COLOR") != ""
			if display.Columns(a.Stdout) == 0 {
				return exit.Usage("stdout is not a terminal", "use pawl ls for a list, or pawl watch for events")
			}
			return t.live(cmd.Context())
		},
	}
	fs := cmd.Flags()
	cli.StoresVar(fs, &urls)
	cli.ChoiceVar(cmd, &t.order, "sort", "sort by `COLUMN`: name, holder, age, waiting or first", "name", "holder", "age", "waiting", "first")
	fs.BoolVar(&t.plain, "no-color", false, "use no colors")
	return cmd
}

// take updates a store with a look.
func (t *top) take(s *topStore, l *history.Look) {
	t.past.Take(&s.Store, l)
	s.failed, s.slow = l.Err, l.Seldom()
}

// live opens the terminal's screen and calls show.
func (t *top) live(ctx context.Context) error {
	s, err := tcell.NewScreen()
	if err == nil {
		err = s.Init()
	}
	if err != nil {
		return exit.Fail(exit.System, "cannot draw on this terminal: "+err.Error(), "see TERM and LANG, or try: pawl ls")
	}
	defer s.Fini() // restores the terminal, also after a panic
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return t.show(ctx, s)
}

// show shows the locks on s until the user quits.
func (t *top) show(ctx context.Context, s tcell.Screen) error {
	type answer struct {
		*topStore
		history.Look
	}
	looks, events := make(chan answer), make(chan tcell.Event)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, store := range t.stores {
		go store.source.Follow(ctx, func(l history.Look) {
			select {
			case looks <- answer{store, l}:
			case <-ctx.Done():
			}
		}, nil)
	}
	go s.ChannelEvents(events, ctx.Done())
	s.RegisterRuneFallback('…', "~")
	ages := time.NewTicker(time.Second)
	defer ages.Stop()
	for {
		t.draw(s, time.Now())
		select {
		case l := <-looks:
			t.take(l.topStore, &l.Look)
		case e, ok := <-events:
			if !ok || t.quits(s, e) {
				return nil
			}
		case <-ages.C:
		case <-ctx.Done():
			return nil
		}
	}
}
