// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// shownTop returns a top of two stores, of which the second is away, and when that was.
func shownTop(t *testing.T) (*top, time.Time) {
	now := time.Now()
	person := func(host string) pawl.Holder {
		return pawl.Holder{User: "ci", Host: host, PID: 812, Command: "make"}
	}
	held := func(host string, ago time.Duration, why string) pawl.Held {
		return pawl.Held{Holder: person(host), Lease: host + why, Acquired: now.Add(-ago), Expires: now.Add(20 * time.Second), Why: why}
	}
	late := held("ci-5", time.Hour, "feed")
	shared := held("ci-6", time.Minute, "")
	shared.Shared = true
	slot := held("ci-6", time.Minute, "train")
	slot.Slots = 3
	orphan := held("ci-7", 49*time.Hour, "")
	orphan.Orphan = true
	waits := func(host string, ago time.Duration, hold, lease string) []pawl.Waiter {
		w := pawl.Waiter{Holder: person(host), Lease: "w" + host, Since: now.Add(-ago)}
		if hold != "" {
			w.Holds = []pawl.Hold{{Name: hold, Lease: lease}}
		}
		return []pawl.Waiter{w}
	}
	infos := []*pawl.Info{
		{Name: "deploy", Holders: []pawl.Held{held("ci-1", 3*time.Minute, "release 7 of the shop, with what belongs to it")}, Waiters: waits("ci-9", 2*time.Minute, "", "")},
		{Name: "a", Holders: []pawl.Held{held("ci-2", 10*time.Second, "A")}, Waiters: waits("ci-3", 9*time.Second, "b", "ci-3B")},
		{Name: "b", Holders: []pawl.Held{held("ci-3", 10*time.Second, "B")}, Waiters: waits("ci-2", 8*time.Second, "a", "ci-2A")},
		{Name: "feed", Holders: []pawl.Held{late}},
		{Name: "gpu", Holders: []pawl.Held{slot, slot}},
		{Name: "readers\x1b[2J\u202e", Holders: []pawl.Held{shared, shared, shared}},
		{Name: "left", Holders: []pawl.Held{orphan}},
		{Name: "free", Waiters: waits("ci-8", time.Second, "", "")},
	}
	top := &top{App: new(cli.App), past: history.New(0), order: "first"}
	top.stores = []*topStore{{Store: history.Store{Name: "redis://h1"}}, {Store: history.Store{Name: "redis://h2"}}}
	state := report.StateOf(&pawl.StoreInfo{Closed: time.Minute, Why: "it has just started"})
	for _, at := range []time.Duration{-16, -1} { // seconds
		top.take(top.stores[0], &history.Look{At: now.Add(at * time.Second), Took: 1500 * time.Millisecond, Infos: infos, State: state})
		infos[3].Holders[0].Expires = now.Add(time.Second)
	}
	top.take(top.stores[1], &history.Look{At: now, Err: context.DeadlineExceeded})
	return top, now
}

// drawnTop returns the lines of a screen.
func drawnTop(t *testing.T, top *top, now time.Time, width, height int) []string {
	t.Helper()
	s := tcell.NewSimulationScreen("UTF-8")
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	defer s.Fini()
	s.SetSize(width, height)
	top.draw(s, now)
	cells, columns, _ := s.GetContents()
	var lines []string
	for i := 0; i < len(cells); i += columns {
		var b strings.Builder
		for _, c := range cells[i : i+columns] {
			if fg, bg, _ := c.Style.Decompose(); top.plain && (fg != tcell.ColorDefault || bg != tcell.ColorDefault) {
				t.Errorf("%q has a colour", c.Runes)
			}
			b.WriteString(string(c.Runes))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

func TestTopAt80By24(t *testing.T) {
	top, now := shownTop(t)
	top.plain = true
	got := drawnTop(t, top, now, 80, 24)
	clock := now.Local().Format(time.TimeOnly)
	until := top.stores[0].State.Until.Local().Format(time.TimeOnly)
	want := strings.Split(`pawl top  held 7, waiting 4                                             `+clock+`
1  redis://h1: the store grants nothing for 1m0s, until `+until+`: it has just s…
2  redis://h2 does not answer: context deadline exceeded
redis://h1: listing takes 1.5s, so it is repeated only every 15s
deadlock: a (ci@ci-2) → b (ci@ci-3) → a
S  NAME          KIND       HELD   WAIT  FIRST↓  HOLDER      WHY
1  deploy        exclusive  3m00s  1     2m00s   ci@ci-1     release 7 of the s…
1  a             exclusive  10s    1     9s      ci@ci-2     deadlock: A
1  b             exclusive  10s    1     8s      ci@ci-3     deadlock: B
1  free          -          -      1     1s      nobody      quarantine
1  left          exclusive  2d01h  0     -       ci@ci-7     orphan
1  feed          exclusive  1h00m  0     -       ci@ci-5     overdue: feed
1  gpu           2 of 3     1m00s  0     -       +1 ci@ci-6  train
1  readers�[2J�  shared     1m00s  0     -       +2 ci@ci-6  -
`, "\n")
	for i, line := range got {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("line %d has %d characters: %s", i, utf8.RuneCountInString(line), line)
		}
		if i < len(want) && line != want[i] {
			t.Errorf("line %d is\n%q, want\n%q", i, line, want[i])
		}
	}
}

// TestTopOrders: each key sorts, and the same key again turns the order.
func TestTopOrders(t *testing.T) {
	top, now := shownTop(t)
	for _, c := range []struct {
		keys, first, last string
	}{
		{"n", "a", "readers"}, {"nn", "readers", "a"}, {"a", "left", "free"}, {"aa", "free", "left"},
		{"w", "deploy", "readers"}, {"nf", "deploy", "readers"}, {"h", "gpu", "free"},
	} {
		top.order, top.turned = "first", false
		for _, key := range c.keys {
			if top.typed(key) {
				t.Errorf("%q quits", key)
			}
		}
		rows := top.rows(now)
		if first, last := rows[0].name, rows[len(rows)-1].name; !strings.HasPrefix(first, c.first) || !strings.HasPrefix(last, c.last) {
			t.Errorf("%s: from %q to %q, want from %q to %q", c.keys, first, last, c.first, c.last)
		}
	}
	if !top.typed('q') {
		t.Error("q does not quit")
	}
}

// TestTopMoves: what does not fit is reached with keys, on any size of the screen.
func TestTopMoves(t *testing.T) {
	top, now := shownTop(t)
	s := tcell.NewSimulationScreen("UTF-8")
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	defer s.Fini()
	s.SetSize(80, 11)
	for _, c := range []struct {
		key  tcell.Key
		want string
	}{{tcell.KeyHome, "1-4 of 8"}, {tcell.KeyDown, "2-5 of 8"}, {tcell.KeyEnd, "5-8 of 8"}, {tcell.KeyDown, "5-8 of 8"}, {tcell.KeyPgUp, "1-4 of 8"}, {tcell.KeyUp, "1-4 of 8"}, {tcell.KeyPgDn, "5-8 of 8"}} {
		if top.quits(s, tcell.NewEventKey(c.key, 0, 0)) {
			t.Errorf("%v quits", tcell.KeyNames[c.key])
		}
		if lines := drawnTop(t, top, now, 80, 11); !strings.HasSuffix(lines[10], c.want) {
			t.Errorf("%v: %q, want %s", tcell.KeyNames[c.key], lines[10], c.want)
		}
	}
	for width := range 30 {
		for height := range 12 {
			drawnTop(t, top, now, width, height)
		}
	}
	if !top.quits(s, tcell.NewEventKey(tcell.KeyCtrlC, 0, 0)) {
		t.Error("Ctrl-C does not quit")
	}
}
