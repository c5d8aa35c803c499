// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// recorded is four servers, and the sets of the first three and of all but the third. It records at each what
// the test says, as changes that were interrupted leave it.
type recorded struct {
	fleet
	abc, abd entry
}

func startRecorded(t *testing.T) *recorded {
	f := startServers(t, 4)
	set := func(gen int, names string, which ...int) entry {
		e := entry{store: "store", gen: gen, set: newSet(2, strings.Split(names, ""))}
		for _, s := range pick(f, which...) {
			e.addrs = append(e.addrs, s.Addr)
		}
		return e
	}
	return &recorded{f, set(1, "abc", 0, 1, 2), set(2, "abd", 0, 1, 3)}
}

func (r *recorded) open(node int, e entry, gen int) {
	e = e.as("abcd"[node : node+1])
	e.gen = gen
	r.fleet[node].do("set", nodesKey, e.text())
}

func (r *recorded) closed(node int, e entry, gen int, next entry) {
	e = e.as("abcd"[node : node+1])
	e.gen, e.state, e.mark, e.next, e.addrN, e.by = gen, isClosed, "mark", next.set, next.addrs, "somebody"
	r.fleet[node].do("set", nodesKey, e.text())
}

func (r *recorded) now(node int) entry { return parseEntry(r.fleet[node].do("get", nodesKey)) }

func (r *recorded) change(from, to entry) Change {
	url := func(e entry) string { return "redlock://" + strings.Join(e.addrs, ",") }
	return Change{From: url(from), To: url(to), Options: withMaxTTL(changeTTL)}
}

// TestAbortInTheWrongDirection: a change back that was interrupted is not taken back where a quorum is open already.
func TestAbortInTheWrongDirection(t *testing.T) {
	t.Parallel()
	r := startRecorded(t)
	r.open(2, r.abc, 3)          // a change to abc did not get further,
	r.closed(0, r.abd, 2, r.abd) // and was taken back
	r.open(1, r.abd, 4)
	r.open(3, r.abd, 4)
	if err := r.change(r.abc, r.abd).Abort(t.Context()); err == nil || !strings.Contains(err.Error(), "open already") {
		t.Errorf("Abort = %v; want an error that says that the new nodes are open already", err)
	}
	if e := r.now(0); e.state != isClosed {
		t.Errorf("the first node has recorded %q; want it closed", e.raw)
	}
	if err := r.change(r.abc, r.abd).Run(t.Context()); err != nil {
		t.Error(err)
	}
	if e := r.now(0); e.state != isOpen || e.gen != 4 {
		t.Errorf("after the change the first node has recorded %q; want generation 4, open", e.raw)
	}
}

// TestAbortAfterOneOpened: one node is open for the new set. The old nodes are opened only when that has been told.
func TestAbortAfterOneOpened(t *testing.T) {
	t.Parallel()
	const duringTheWait = 4
	for _, dies := range []int{-1, 2, 3, duringTheWait} {
		t.Run(fmt.Sprint("dies ", dies), func(t *testing.T) {
			t.Parallel()
			r := startRecorded(t)
			for i := range 3 {
				r.closed(i, r.abc, 1, r.abd)
			}
			r.open(3, r.abd, 2)
			change := r.change(r.abc, r.abd)
			switch dies {
			case 2:
				r.fleet[2].kill()
			case 3:
				change.killed = func() bool { r.fleet[3].kill(); return false }
			case duringTheWait:
				change.Say = func(string) { r.fleet[3].kill() }
			}
			err := change.Abort(t.Context())
			if dies < 3 {
				if e := r.now(3); err != nil || e.gen != 3 || !e.set.equal(r.abc.set) {
					t.Errorf("Abort = %v, and the fourth node has recorded %q; want it to serve what it was before", err, e.raw)
				}
				return
			}
			if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), r.fleet[3].Addr) {
				t.Errorf("Abort = %v; want ErrUnavailable, and the node", err)
			}
			for i := range 3 {
				if e := r.now(i); e.state != isClosed {
					t.Errorf("node %d has recorded %q; want it closed", i, e.raw)
				}
			}
			change.killed, change.Say = nil, nil
			r.fleet[3].restart()
			if err := change.Abort(t.Context()); err != nil {
				t.Errorf("Abort, once all nodes answer: %v", err)
			}
		})
	}
}

// TestLostDuringAbort: a node that has lost its record is not told to serve the new set while another one is closed for the old.
func TestLostDuringAbort(t *testing.T) {
	t.Parallel()
	abd := entry{store: "store", gen: 2, set: newSet(2, []string{"a", "b", "d"}), addrs: []string{"A", "B", "D"}}
	back := entry{self: "b", store: "store", gen: 1, set: newSet(2, []string{"a", "b", "c"}), state: isClosed}
	r := newRoster(2, abd.addrs)
	r.learn(2, abd.as("d"))
	r.learn(0, entry{})
	for _, c := range []struct {
		next nodeSet
		told bool
	}{{abd.set, true}, {back.set, false}} {
		back.next = c.next
		r.learn(1, back)
		if _, fix, err := r.ready(0); (fix != nil) != c.told || !c.told && !errors.Is(err, errChanging) {
			t.Errorf("beside a node that is closed for %v: %v, %v; want it told: %t", c.next, fix, err, c.told)
		}
	}
}

// TestAbortBeforeOpen: a change is taken back while its operator is about to open the new nodes, and stays so.
func TestAbortBeforeOpen(t *testing.T) {
	t.Parallel()
	all, change := changing(t, 4, 0, 1, 3)
	stands := change
	var waited atomic.Bool
	stands.Say = func(string) { waited.Store(true) } // its nodes are closed
	var once sync.Once
	stands.killed = func() bool {
		if waited.Load() {
			once.Do(func() {
				if err := change.Abort(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		return false
	}
	// The time of its requests may be over when it goes on.
	if err := stands.Run(t.Context()); !errors.Is(err, ErrOtherChange) && !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a change that was taken back = %v; want ErrOtherChange", err)
	}
	for i := range 3 {
		if e := parseEntry(all[i].do("get", nodesKey)); e.state != isOpen || e.gen != 3 {
			t.Errorf("node %d has recorded %q; want generation 3, open", i, e.raw)
		}
	}
}

// TestLateMaxTTL: MaxTTL is raised between the look of an operator and its closing of the nodes.
func TestLateMaxTTL(t *testing.T) {
	t.Parallel()
	_, change := changing(t, 5, 0, 3, 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	change.killed = func() bool {
		once.Do(func() {
			if err := SetMaxTTL(t.Context(), change.From, time.Minute, withMaxTTL(0)); err != nil {
				t.Error(err)
			}
		})
		return false
	}
	change.Say = func(text string) {
		if !strings.Contains(text, " for 1m") {
			t.Errorf("the operator says %q; want it to wait for the longest MaxTTL", text)
		}
		cancel()
	}
	t.Log(change.Run(ctx))
}

// TestAbortAfterOneLost: a node that has lost its record may have been open for the new set, as part of a quorum.
func TestAbortAfterOneLost(t *testing.T) {
	t.Parallel()
	r := startRecorded(t)
	r.closed(1, r.abc, 1, r.abd)
	r.closed(2, r.abc, 1, r.abd)
	r.open(3, r.abd, 2)
	change, waited := r.change(r.abc, r.abd), false
	change.Say = func(text string) { waited = waited || strings.Contains(text, "nothing is granted") }
	began := driver.Now()
	if err := change.Abort(t.Context()); err != nil || !waited || driver.Now().Sub(began) < changeTTL {
		t.Errorf("Abort = %v, after %v; want it to wait until leases of the new nodes have ended", err, driver.Now().Sub(began))
	}
}

// TestAbortOfAnotherChange: an operator repeats the command of the change before the one that is under way, of which a node that was
// down still knows, or names other new nodes.
func TestAbortOfAnotherChange(t *testing.T) {
	t.Parallel()
	r := startRecorded(t)
	next := entry{set: newSet(2, []string{"x", "y", "z"}), addrs: []string{"x:1", "y:1", "z:1"}}
	change := r.change(r.abc, r.abd)
	refused := func(what string) {
		t.Helper()
		for name, f := range map[string]func(context.Context) error{"Abort": change.Abort, "Run": change.Run} {
			if err := f(t.Context()); !errors.Is(err, ErrOtherChange) || !strings.Contains(err.Error(), "y:1") {
				t.Errorf("%s: %s = %v; want ErrOtherChange, and its nodes", what, name, err)
			}
		}
		for i := range 4 {
			if e := r.now(i); e.founded() && e.mark != "mark" {
				t.Errorf("%s: node %d has recorded %q; want what it had", what, i, e.raw)
			}
		}
	}
	for i := range 3 {
		r.closed(i, r.abc, 1, next)
	}
	refused("other new nodes")
	r.closed(2, r.abc, 1, r.abd)
	for _, i := range []int{0, 1, 3} {
		r.closed(i, r.abd, 2, next)
	}
	refused("the change before")
}
