// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// cut is a master that one client does not reach.
type cut struct{ *master }

func (c cut) Propose(context.Context, Proposal) (Vote, error) { return Vote{}, errRefused }
func (c cut) Enqueue(context.Context, Place) (State, error)   { return State{}, errRefused }
func (c cut) End(context.Context, Ending) (had, next bool, err error) {
	return false, false, errRefused
}

// renamed is a master with another address.
type renamed struct{ *master }

func (r renamed) Addr() string { return "other " + r.addr }

// contend lets two clients take turns for six seconds, and returns how many leases they had.
// The nodes of one of them are changed before, and one of the few after they have begun.
func contend(t *testing.T, n int, theirs func(ns []Node, bad int), disturb func(bad *master)) (leases int) {
	all := masters(n)
	wan(all, 200*time.Microsecond, 1)
	d := start(t, all, nil)
	ns, bad := nodes(all), d.few(name)[0]
	theirs(ns, bad)
	other, err := NewDriverFor(t.Context(), ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	disturb(all[bad])
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	counts := make(chan int)
	for _, d := range []*Driver{d, other} {
		go func() {
			count := 0
			for ctx.Err() == nil {
				g, err := d.Acquire(ctx, renewing())
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Acquire = %v", err)
					}
					continue
				}
				count++
				time.Sleep(time.Millisecond)
				if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			}
			counts <- count
		}()
	}
	leases = <-counts + <-counts
	for _, m := range all {
		m.set(nil)
	}
	return leases
}

// TestFewAndABadNode: a node of the few that is worse than the others does not make hand-overs slower for long.
func TestFewAndABadNode(t *testing.T) {
	same, well := func([]Node, int) {}, func(*master) {}
	for _, n := range []int{3, 5} {
		healthy := 0
		for _, c := range []struct {
			what    string
			theirs  func(ns []Node, bad int)
			disturb func(bad *master)
		}{
			{"nothing", same, well},
			{"it is slow", same, func(m *master) {
				m.set(always(fault{before: 10 * time.Millisecond, after: 10 * time.Millisecond}))
			}},
			{"its messages are lost", same, func(m *master) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.tells = nil
			}},
			{"it is silent", same, func(m *master) { m.set(always(fault{lost: true})) }},
			{"a client does not reach it", func(ns []Node, bad int) { ns[bad] = cut{ns[bad].(*master)} }, well},
			{"a client has other names for the nodes", func(ns []Node, _ int) {
				for i := range ns {
					ns[i] = renamed{ns[i].(*master)}
				}
			}, well},
		} {
			synctest.Test(t, func(t *testing.T) {
				leases := contend(t, n, c.theirs, c.disturb)
				if healthy == 0 {
					healthy = leases
				}
				t.Logf("%d nodes, %s: %.2f", n, c.what, float64(leases)/float64(healthy))
				if leases < healthy*3/4 {
					t.Errorf("%d nodes, %s: %d leases; and %d if all is well", n, c.what, leases, healthy)
				}
			})
		}
	}
}

// TestFewAndALongTTL: a node of the few that does not answer keeps no waiter from a free lock, however long a node may
// take with that TTL.
func TestFewAndALongTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		opts := &Options{}
		opts.MaxTTL = time.Hour
		g := try(t, start(t, all, opts))
		d := start(t, all, opts)
		bad := all[d.few(name)[0]]
		bad.set(always(fault{lost: true}))
		req := renewing()
		req.TTL = time.Hour
		got := acquire(t.Context(), d, req)
		time.Sleep(20 * time.Millisecond)
		if err := g.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		released := driver.Now()
		next := <-got
		elapsed(t, released, 0)
		bad.set(nil)
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// TestFewOfEvenNodes: a node of the few that has lost the lock is noticed whatever the quorum is.
func TestFewOfEvenNodes(t *testing.T) {
	for _, c := range [][2]int{{4, 3}, {5, 4}, {6, 4}, {7, 5}} {
		synctest.Test(t, func(t *testing.T) {
			all := masters(c[0])
			wan(all, 200*time.Microsecond, 3)
			opts := &Options{Quorum: c[1]}
			g := try(t, start(t, all, opts))
			d := start(t, all, opts)
			bad := all[d.few(name)[0]]
			got := acquire(t.Context(), d, renewing())
			time.Sleep(10 * time.Millisecond)
			bad.restart(true)
			time.Sleep(2*lookEvery + 100*time.Millisecond)
			for i, m := range all {
				if s := m.stateOf(name); s.Waiters != 1 {
					t.Errorf("%d nodes with a quorum of %d: node %d has %d waiters", c[0], c[1], i, s.Waiters)
				}
			}
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := (<-got).Release(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestFewWithReaders: a writer that waits for readers is in the queues of all nodes, and asks each once for its wish.
func TestFewWithReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		reader := request()
		reader.Shared = true
		g, err := start(t, all, nil).TryAcquire(t.Context(), reader)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wished := requests(all, "want")
		got := acquire(t.Context(), start(t, all, nil), renewing())
		if n := wished(); fmt.Sprint(n) != "[1 1 1 1 1]" {
			t.Errorf("the nodes had %d wishes; want one each", n)
		}
		for i, m := range all {
			if s := m.stateOf(name); s.Waiters != 1 {
				t.Errorf("node %d has %d waiters", i, s.Waiters)
			}
		}
		if err := g.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := (<-got).Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestFreshVotes: that a waiter was told before its last request does not end its wait for votes.
func TestFreshVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &search{d: start(t, masters(3), nil), req: renewing(), wake: make(chan struct{}, 1)}
		s.turn = &turn{quorum: 2, wake: s.wake, settled: make(chan struct{}, 1)}
		s.turn.told(Message{Seq: s.turn.asks()}) // that the name may be free
		seq := s.turn.asks()
		s.turn.told(Message{Token: 7, Seq: seq, Run: "one"})
		time.AfterFunc(time.Millisecond, func() { s.turn.told(Message{Token: 7, Seq: seq, Run: "two"}) })
		if _, err := s.lull(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := s.turn.won(time.Minute); !ok {
			t.Error("it goes on before the votes have come")
		}
	})
}
