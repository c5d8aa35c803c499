// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// behind is how long a waiter waits for nodes that have not told it anything.
const behind = 5 * time.Millisecond

// newTurn returns the turn of a waiter at three nodes, and what its client is told, and when.
func newTurn(t *testing.T, req *driver.Request) (tr *turn, told chan driver.Event) {
	d := start(t, masters(3), nil)
	for _, m := range d.members {
		m.trip.Store(int64(behind / 2))
	}
	told = make(chan driver.Event, 9)
	d.Listen(func(e driver.Event) { told <- e })
	return &turn{l: d.lease(req)}, told
}

// TestTurnCountsFromTheRequest: a vote is trusted from the sending of the request that it follows, not from that
// of a later one, nor from its coming.
func TestTurnCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := renewing()
		tr, told := newTurn(t, req)
		first := driver.Now()
		old := tr.asks()
		time.Sleep(200 * time.Millisecond)
		now := tr.asks()
		time.Sleep(200 * time.Millisecond)
		tr.told(nodewire.Message{Lease: "x", Token: 7, Seq: now, Run: "one"})
		tr.told(nodewire.Message{Lease: "x", Token: 7, Seq: old, Run: "two"})
		token, since, ok := tr.won()
		if !ok || token != 7 || since != first {
			t.Errorf("won = %d, %v, %t; want 7, since the first request", token, since-first, ok)
		}
		e := <-told
		if g := e.Grant; e.Kind != driver.Granted || g.Token != 7 || trust(g.Since, req.TTL) != trust(first, claimFor) {
			t.Errorf("the client is told %+v; want a grant that it trusts until the claim ends", e)
		}
		for _, run := range []string{"one", "two"} {
			tr.told(nodewire.Message{Token: 8, Seq: now, Run: run})
			if token, _, ok := tr.won(); !ok || token != 7 {
				t.Errorf("while the client may trust token 7: won = %d, %t", token, ok)
			}
		}
		time.Sleep(claimFor)
		// Of another server, another token, a request that was not made.
		for _, m := range []nodewire.Message{{Token: 9, Seq: now, Run: "one"}, {Token: 9, Seq: now, Run: "one"}, {Token: 8, Seq: now, Run: "two"}, {Token: 9, Seq: 2, Run: "two"}} {
			tr.told(m)
			if token, _, ok := tr.won(); ok && token == 9 {
				t.Errorf("%+v has made a quorum", m)
			}
		}
		tr.told(nodewire.Message{Token: 9, Seq: now, Run: "two"})
		if token, _, ok := tr.won(); !ok || token != 9 {
			t.Errorf("won = %d, %t; want 9", token, ok)
		}
		if tr, _ := newTurn(t, &driver.Request{Name: name, Lease: "y", TTL: 100 * time.Millisecond, Renewed: true}); tr.asks() == 0 {
			tr.told(nodewire.Message{Token: 7, Seq: 0, Run: "one"})
			if g := tr.event().Grant; g.Since > driver.Now() {
				t.Error("a claim is longer than the TTL")
			}
		}
	})
}

// TestWhatAWaiterIsTold: votes of a quorum are a grant, and what else nodes say is a reason to look, once those behind
// have had the time to say the same.
func TestWhatAWaiterIsTold(t *testing.T) {
	vote := func(run string) nodewire.Message { return nodewire.Message{Token: 7, Run: run} }
	free := nodewire.Message{Run: "three"}
	for _, c := range []struct {
		what    string
		says    []nodewire.Message
		renewed bool
		kind    driver.EventKind
		after   time.Duration
	}{
		{"a quorum has voted", []nodewire.Message{vote("one"), vote("two")}, true, driver.Granted, 0},
		{"all have voted", []nodewire.Message{vote("one"), vote("two"), vote("three")}, true, driver.Granted, 0},
		{"little is left of the claim", []nodewire.Message{vote("one"), vote("two")}, true, driver.Look, 0},
		{"the caller does not renew", []nodewire.Message{vote("one"), vote("two")}, false, driver.Look, 0},
		{"one has voted", []nodewire.Message{vote("one")}, true, driver.Look, behind},
		{"a node has voted twice", []nodewire.Message{vote("one"), vote("one")}, true, driver.Look, behind},
		{"one has not voted", []nodewire.Message{vote("one"), free}, true, driver.Look, 0},
		{"the name may be free", []nodewire.Message{free}, true, driver.Look, behind},
	} {
		synctest.Test(t, func(t *testing.T) {
			req := renewing()
			req.Renewed = c.renewed
			tr, told := newTurn(t, req)
			tr.asks()
			if c.what == "little is left of the claim" {
				time.Sleep(claimFor / 2)
			}
			began := driver.Now()
			for _, m := range c.says {
				tr.told(m)
			}
			if e := <-told; e.Kind != c.kind || e.Grant.Free != 0 || driver.Now().Sub(began) != c.after {
				t.Errorf("%s: the client is told %+v after %v; want kind %v after %v", c.what, e, driver.Now().Sub(began), c.kind, c.after)
			}
			time.Sleep(time.Minute)
			select {
			case e := <-told:
				t.Errorf("%s: the client is told %+v as well", c.what, e)
			default:
			}
		})
	}
}

// TestPauseOfFarNodes: however far away the nodes seem to be, a waiter that has votes proposes while they last.
func TestPauseOfFarNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, told := newTurn(t, renewing())
		for _, m := range tr.l.d.members {
			m.trip.Store(int64(10 * time.Second))
		}
		tr.asks()
		began := driver.Now()
		tr.told(nodewire.Message{Token: 7, Run: "one"})
		<-told
		if took := driver.Now().Sub(began); took > claimFor/2 {
			t.Errorf("it paused for %v, and its votes last for %v", took, claimFor)
		}
	})
}

// TestFreshVotes: that a waiter was told before its last request does not end its wait for votes.
func TestFreshVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, told := newTurn(t, renewing())
		tr.told(nodewire.Message{Seq: tr.asks()}) // that the name may be free
		seq := tr.asks()
		tr.told(nodewire.Message{Token: 7, Seq: seq, Run: "one"})
		time.AfterFunc(time.Millisecond, func() { tr.told(nodewire.Message{Token: 7, Seq: seq, Run: "two"}) })
		if e := <-told; e.Kind != driver.Granted {
			t.Errorf("the client is told %+v; want the votes", e)
		}
	})
}

// TestVotesBesideAnAttempt: a quorum votes for a waiter whose attempt is under way, and fails. The client trusts the lease,
// so the nodes keep it.
func TestVotesBesideAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		holder := try(t, start(t, all, nil))
		d := start(t, all, nil)
		got := acquire(t.Context(), d, renewing())
		time.Sleep(10 * time.Millisecond)
		for _, m := range all {
			m.set(only("propose", fault{after: 200 * time.Millisecond})) // it is refused, and nobody knows that yet
		}
		d.mu.Lock()
		claim := slices.Collect(maps.Keys(d.waiting))[0]
		d.mu.Unlock()
		d.told(nodewire.Message{Lease: claim, Token: 1, Run: "another"}) // so it proposes
		time.Sleep(50 * time.Millisecond)
		release(t, holder)
		g := <-got
		if g == nil {
			t.Fatal("the waiter has no lease")
		}
		time.Sleep(10 * time.Millisecond)
		for _, m := range all {
			if has := m.lockOf(name).Lease; has != claim {
				t.Errorf("%s has the lock of %q; want %q, whose client trusts its lease", m.addr, has, claim)
			}
			m.set(nil)
		}
		release(t, g)
	})
}
