// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// looks is a watch that is shown what a test makes up.
type looks struct {
	*testing.T
	*watching
	out bytes.Buffer
}

func newLooks(t *testing.T) *looks {
	u, err := stores.Parse("redis://localhost")
	if err != nil {
		t.Fatal(err)
	}
	l := &looks{T: t}
	l.watching = &watching{App: &cli.App{Stdout: &l.out}, store: &stores.Store{URL: u}, past: history.New(0), seen: history.Store{Name: "redis://localhost"}}
	return l
}

// base is when a story begins.
var base = time.Unix(1e9, 0)

func at(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }

// look is one look, so many seconds after the begin, and what pawl prints of it but the time.
func (l *looks) look(s int, want string, look history.Look) {
	l.Helper()
	look.At = at(s)
	l.out.Reset()
	for _, c := range l.changes(&look, look.At) {
		if err := l.tell(c); err != nil {
			l.Fatal(err)
		}
	}
	var got []string
	for line := range strings.Lines(l.out.String()) {
		got = append(got, strings.TrimSpace(line[len(time.TimeOnly):]))
	}
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if !slices.Equal(got, lines) {
		l.Errorf("after %ds it prints\n%s\nwant\n%s", s, strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

func heldFrom(s int, user string, token pawl.Token, expires int) pawl.Held {
	return pawl.Held{Holder: pawl.Holder{User: user}, Lease: "lease of " + user, Token: token, Why: user + "'s work", Acquired: at(s), Expires: at(expires)}
}

func waitsFrom(s int, user string) pawl.Waiter {
	return pawl.Waiter{Holder: pawl.Holder{User: user}, Lease: "lease of " + user, Since: at(s)}
}

// TestWatchTells: what is told of each look, in the order in which it happened.
func TestWatchTells(t *testing.T) {
	l := newLooks(t)
	lock := func(name string, holders []pawl.Held, waiters ...pawl.Waiter) *pawl.Info {
		return &pawl.Info{Name: name, Holders: holders, Waiters: waiters}
	}
	holds := func(h ...pawl.Held) []pawl.Held { return h }
	alice, bob, carol := heldFrom(-60, "alice", 41, 30), heldFrom(9, "bob", 42, 40), pawl.Waiter{Holder: pawl.Holder{User: "carol"}, Since: at(5), Shared: true}
	l.look(0, `
		held      a  alice, for 1m0s (why: alice's work), token 41
		waiting   a  bob, for 10s
	`, history.Look{Infos: []*pawl.Info{lock("a", holds(alice), waitsFrom(-10, "bob")), lock("z", nil)}})
	l.look(1, "", history.Look{Infos: []*pawl.Info{lock("a", holds(alice), waitsFrom(-10, "bob"))}})
	l.look(6, `
		waiting   a  carol, shared
	`, history.Look{Infos: []*pawl.Info{lock("a", holds(alice), waitsFrom(-10, "bob"), carol)}})
	l.look(10, `
		released  a  alice, held for 1m10s, token 41
		granted   a  bob, waited 20s (why: bob's work), token 42
		left      a  carol, shared, after 5s
		granted   b  dave (why: dave's work), token 7
	`, history.Look{Infos: []*pawl.Info{lock("a", holds(bob)), lock("b", holds(heldFrom(9, "dave", 7, 40)))}})
	l.look(30, `
		overdue   a  bob, ends in 10s, token 42
		released  b  dave, held for 21s, token 7
	`, history.Look{Infos: []*pawl.Info{lock("a", holds(bob))}})
	bob.Expires = at(60)
	l.look(31, `renewed   a  bob, token 42`, history.Look{Infos: []*pawl.Info{lock("a", holds(bob))}})
	l.look(50, `overdue   a  bob, ends in 10s, token 42`, history.Look{Infos: []*pawl.Info{lock("a", holds(bob))}})
	l.look(61, `expired   a  bob, held for 52s, token 42`, history.Look{})
	l.look(62, `granted   a  eve (why: eve's work), token 43`, history.Look{Infos: []*pawl.Info{lock("a", holds(heldFrom(62, "eve", 43, 92)))}})
	l.look(63, `silent    redis://localhost does not answer`, history.Look{Err: context.DeadlineExceeded})
	l.look(92, `
		answers   redis://localhost answers again, after 29s
		ended     a  eve, held for at most 30s, token 43
	`, history.Look{})
}

// TestWatchTellsOfTheStore: that it is silent, and nothing of the locks then; and that it is closed.
func TestWatchTellsOfTheStore(t *testing.T) {
	l := newLooks(t)
	infos := []*pawl.Info{{Name: "a", Holders: []pawl.Held{heldFrom(-1, "alice", 1, 100)}}}
	l.look(0, `held      a  alice, for 1s (why: alice's work), token 1`, history.Look{Infos: infos})
	l.look(1, `silent    redis://localhost does not answer`, history.Look{Err: context.DeadlineExceeded})
	l.look(2, "", history.Look{Err: context.DeadlineExceeded})
	l.look(7, `silent    redis://localhost does not answer; silent for 6s`, history.Look{Err: context.DeadlineExceeded})
	l.look(8, `answers   redis://localhost answers again, after 7s`, history.Look{Infos: infos})
	l.look(9, `silent    some of it is damaged`, history.Look{Infos: infos, Err: fmt.Errorf("some of it is damaged")})
	state := report.StateOf(&pawl.StoreInfo{Closed: 20 * time.Second, Why: "it has restarted"})
	l.look(10, `
		answers   redis://localhost answers again, after 1s
		closed    redis://localhost grants nothing for 20s, until `+state.Until.Local().Format(time.TimeOnly)+`: it has restarted
	`, history.Look{Infos: infos, State: state})
	l.look(30, `open      redis://localhost grants leases again, after 20s`, history.Look{Infos: infos, State: &report.State{}})
}

// TestGrantedToAnotherOfTheProcess: of two waits of a process one is granted, the other has left.
func TestGrantedToAnotherOfTheProcess(t *testing.T) {
	l := newLooks(t)
	one, two := waitsFrom(0, "alice"), waitsFrom(0, "alice")
	two.Lease = "another"
	l.look(1, "waiting   a  alice, for 1s\nwaiting   a  alice, for 1s", history.Look{Infos: []*pawl.Info{{Name: "a", Waiters: []pawl.Waiter{one, two}}}})
	l.look(2, "granted   a  alice, waited 2s (why: alice's work), token 5\nleft      a  alice, after 2s",
		history.Look{Infos: []*pawl.Info{{Name: "a", Holders: []pawl.Held{heldFrom(2, "alice", 5, 30)}}}})
}

// TestWaitThatEndsAfterItsGrant: a store may show the lease and the wait for it at once.
func TestWaitThatEndsAfterItsGrant(t *testing.T) {
	l := newLooks(t)
	held := []pawl.Held{heldFrom(1, "bob", 5, 30)}
	l.look(0, "", history.Look{})
	l.look(1, "granted   a  bob (why: bob's work), token 5",
		history.Look{Infos: []*pawl.Info{{Name: "a", Holders: held, Waiters: []pawl.Waiter{waitsFrom(1, "bob")}}}})
	l.look(2, "", history.Look{Infos: []*pawl.Info{{Name: "a", Holders: held}}})
}

// TestLineFits: on a terminal an event is one line, with as much of it as there is room for.
func TestLineFits(t *testing.T) {
	c := change{Time: base, Event: "held", Seconds: 10, Holder: &pawl.Held{Token: 41, Why: "nightly",
		Holder: pawl.Holder{User: "root", Host: "vm", PID: 11057, Command: strings.Repeat("ä", 20)}}}
	who := `root@vm (pid 11057, "` + strings.Repeat("ä", 20) + `")`
	for _, l := range []struct {
		width int
		want  string
	}{
		{0, "  held      backup  " + who + ", for 10s (why: nightly), token 41"},
		{105, "  held      backup  " + who + ", for 10s (why: nightly), token 41"},
		{104, "  held      backup  " + who + ", for 10s (why: nightly)"},
		{80, "  held      backup  root@vm (pid 11057, \"ääääää…, for 10s (why: nightly)"},
		{50, "  held      backup  root@vm (pi…, for 10s…"},
	} {
		c.Name = "backup"
		if got := c.line(l.width); !strings.HasSuffix(got, l.want) || l.width > 0 && utf8.RuneCountInString(got) > l.width {
			t.Errorf("%d columns: %d characters: %s, want %s", l.width, utf8.RuneCountInString(got), got, l.want)
		}
	}
}

// TestHostileNamesInLines: what others have written does not control the terminal, and an event is a line.
func TestHostileNamesInLines(t *testing.T) {
	l := newLooks(t)
	evil := heldFrom(0, "eve\x1b[2J", 1, 30)
	evil.Why = "one\ntwo"
	l.look(1, "held      a  eve\uFFFD[2J, for 1s (why: one\uFFFDtwo), token 1", history.Look{Infos: []*pawl.Info{{Name: "a", Holders: []pawl.Held{evil}}}})
	l.JSON = true
	l.out.Reset()
	if err := l.tell(change{Name: "a\nb\u2028<"}); err != nil || strings.Count(l.out.String(), "\n") != 1 || !json.Valid(l.out.Bytes()) {
		t.Errorf("%v: %q", err, &l.out)
	}
}

// TestEventsAreExplained: the help says what each event is.
func TestEventsAreExplained(t *testing.T) {
	for _, event := range eventOrder {
		if !strings.Contains(watchHelp, "\n  "+event+" ") {
			t.Errorf("the help does not say what %q is", event)
		}
	}
}

func TestWatchedNames(t *testing.T) {
	for _, c := range []struct {
		names        []string
		prefix, want string
	}{
		{nil, "", "deploy deploy/web deploy2 nightly"},
		{[]string{"deploy"}, "deploy", "deploy"},
		{[]string{"deploy/"}, "deploy/", "deploy/web"},
		{[]string{"deploy", "deploy/"}, "deploy", "deploy deploy/web"},
		{[]string{"deploy2", "nightly"}, "", "deploy2 nightly"},
		{[]string{"dä", "dö"}, "d", ""},
	} {
		w := watching{names: c.names}
		var got []string
		for _, name := range []string{"deploy", "deploy/web", "deploy2", "nightly"} {
			if w.wants(name) {
				got = append(got, name)
			}
		}
		if prefix := commonPrefix(c.names); prefix != c.prefix || strings.Join(got, " ") != c.want {
			t.Errorf("%q: prefix %q, names %q", c.names, prefix, got)
		}
	}
}
