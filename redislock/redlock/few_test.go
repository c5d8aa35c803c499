// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// requests counts requests of one kind at each master.
func requests(all []*master, op string) (counts func() []int) {
	n := make([]int, len(all))
	for i, m := range all {
		m.set(func(o string) fault {
			if o == op {
				n[i]++
			}
			return fault{}
		})
	}
	return func() []int {
		synctest.Wait()
		c := slices.Clone(n)
		clear(n)
		return c
	}
}

// onceAt returns the nodes that were asked, and whether these are a quorum, each asked once.
func onceAt(counts []int) (nodes []int, once bool) {
	for i, n := range counts {
		if n > 0 {
			nodes = append(nodes, i)
		}
		if n > 1 {
			return nil, false
		}
	}
	return nodes, len(nodes) == len(counts)/2+1
}

// TestFewNodes: a waiter is in the queues of a quorum, the same as any other waiter for that name, and
// the lease that it is handed is released just there.
func TestFewNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		g := try(t, start(t, all, nil))
		enqueued := requests(all, "enqueue")
		one := acquire(t.Context(), start(t, all, nil), renewing())
		nodes, ok := onceAt(enqueued())
		two := acquire(t.Context(), start(t, all, nil), renewing())
		if again, ok2 := onceAt(enqueued()); !ok || !ok2 || !slices.Equal(nodes, again) {
			t.Fatalf("waiters are in the queues of %d and %d; want three nodes, the same", nodes, again)
		}
		ended := requests(all, "end")
		if err := g.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := <-one
		if n := ended(); slices.Contains(n, 0) {
			t.Errorf("the nodes had %d endings; want one each", n)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := <-two
		if told, ok := onceAt(ended()); !ok || !slices.Equal(told, nodes) {
			t.Errorf("%d were told of the end; want %d, which had the lock", told, nodes)
		}
		if first.Token() <= g.Token() || second.Token() <= first.Token() {
			t.Errorf("tokens %d, %d, %d", g.Token(), first.Token(), second.Token())
		}
		if err := second.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for i, m := range all {
			if s := m.stateOf(name); len(s.Locks) > 0 || s.Waiters > 0 {
				t.Errorf("node %d still has %+v", i, s)
			}
		}
		if g = try(t, start(t, all, nil)); g.Token() <= second.Token() {
			t.Errorf("token %d after %d", g.Token(), second.Token())
		}
	})
}

// TestNodesOfNames: names share the nodes evenly, and all clients choose the same ones, also those that
// name the nodes in another order.
func TestNodesOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		d := start(t, all, nil)
		reversed := slices.Clone(all)
		slices.Reverse(reversed)
		other := start(t, reversed, nil)
		share := make([]int, len(all))
		for i := range 1000 {
			name := fmt.Sprint("job", i)
			chosen := d.few(name)
			theirs := other.few(name)
			for i, n := range theirs {
				theirs[i] = len(all) - 1 - n
			}
			if len(chosen) != 3 || !slices.Equal(chosen, theirs) {
				t.Fatalf("%s: %d and %d; want three, the same", name, chosen, theirs)
			}
			for _, n := range chosen {
				share[n]++
			}
		}
		if least := slices.Min(share); least < 500 {
			t.Errorf("of 1,000 names the nodes have %d; want about 600 each", share)
		}
	})
}

// TestFailedNodes: a node that has failed is not chosen until it has answered, or for a minute.
func TestFailedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		d := start(t, all, nil)
		bad := d.few(name)[0]
		chosen := func() bool { return slices.Contains(d.few(name), bad) }
		for _, again := range []bool{true, false} {
			all[bad].set(always(fault{refused: true}))
			g := try(t, d)
			if chosen() {
				t.Error("a node that is down is chosen")
			}
			all[bad].set(nil)
			if again {
				if _, err := g.Renew(t.Context(), 10*time.Second); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			} else {
				time.Sleep(failedFor)
			}
			if !chosen() {
				t.Errorf("a node that is well again is not chosen; asked: %t", again)
			}
			_ = g.Release(t.Context())
			synctest.Wait()
		}
	})
}

// TestFewDisagree: a waiter that does not hear of one lease at all of its few nodes asks all in the end.
func TestFewDisagree(t *testing.T) {
	for _, c := range []struct {
		what   string
		break1 func(m *master)
	}{
		{"one has another lease", func(m *master) { // first, as it ends also where a waiter looks all the time
			m.restart(false)
			others([]*master{m}, "other")
		}},
		{"one has lost the lock", func(m *master) { m.restart(true) }},
		{"one is down", func(m *master) { m.set(only("enqueue", fault{refused: true})) }},
		{"one is silent", func(m *master) { m.set(only("enqueue", fault{lost: true})) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := masters(5)
			g := try(t, start(t, all, nil))
			d := start(t, all, nil)
			bad := all[d.few(name)[1]]
			c.break1(bad)
			got := acquire(t.Context(), d, renewing())
			time.Sleep(2 * lookEvery)
			for i, m := range all {
				if m == bad {
					continue
				}
				if s := m.stateOf(name); s.Waiters != 1 {
					t.Fatalf("%s: node %d has %d waiters", c.what, i, s.Waiters)
				}
			}
			released := driver.Now()
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			next := <-got
			elapsed(t, released, 0)
			bad.set(nil)
			if err := next.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // endings that are owed
		})
	}
}

// TestEndOfFew: where a lease was handed over at a quorum of nodes only, its release says whether it was lost
// at one of them, and waits no longer than others take for one that is silent.
func TestEndOfFew(t *testing.T) {
	for _, c := range []struct {
		what   string
		happen func(m *master)
		after  time.Duration
		want   error
	}{
		{"nothing", func(*master) {}, 0, nil},
		{"one has lost it", func(m *master) { m.restart(true) }, 0, driver.ErrLost},
		{"one is down", func(m *master) { m.set(always(fault{refused: true})) }, 0, nil},
		{"one is silent", func(m *master) { m.set(always(fault{lost: true})) }, 5 * time.Millisecond, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := masters(5)
			g := try(t, start(t, all, nil))
			d := start(t, all, nil)
			got := acquire(t.Context(), d, renewing())
			synctest.Wait()
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			next := <-got
			bad := all[d.few(name)[1]]
			c.happen(bad)
			began := driver.Now()
			if err := next.Release(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%s: Release = %v; want %v", c.what, err, c.want)
			}
			elapsed(t, began, c.after)
			if try := all[0].stateOf(name); bad != all[0] && len(try.Locks) > 0 {
				t.Errorf("%s: %+v is left", c.what, try)
			}
			bad.set(nil)
			time.Sleep(2 * time.Minute)
		})
	}
}

// TestRefusedAreNotTold: nodes that have refused a proposal have nothing to end.
func TestRefusedAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		others(all[:3], "other")
		d := start(t, all, nil)
		ended := requests(all, "end")
		if _, err := d.TryAcquire(t.Context(), request()); !errors.Is(err, driver.ErrHeld) {
			t.Fatalf("TryAcquire = %v; want ErrHeld", err)
		}
		if n := ended(); !slices.Equal(n, []int{0, 0, 0, 1, 1}) {
			t.Errorf("the nodes had %d endings; want them where the lock was", n)
		}
		free(t, all, "other")
	})
}

// TestUnansweredAreTold: a node that may have granted what nobody has heard of is told of the end.
func TestUnansweredAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		others(all[:3], "other")
		all[3].set(only("propose", fault{silent: true}))
		c := start(t, all, nil).claim(name, "lease", "{}")
		answers := c.propose(Take, 2, time.Minute)
		for range all {
			<-answers
		}
		ended := requests(all, "end")
		c.end("")
		if n := ended(); !slices.Equal(n, []int{0, 0, 0, 1, 1}) {
			t.Errorf("the nodes had %d endings; want them where the lock may be", n)
		}
		free(t, all, "other")
	})
}

// TestGivenUpQueues: whoever gives up leaves the queues that it was in.
func TestGivenUpQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		g := try(t, start(t, all, nil))
		ctx, cancel := context.WithCancel(t.Context())
		got := acquire(ctx, start(t, all, nil), renewing())
		synctest.Wait()
		ended := requests(all, "end")
		cancel()
		<-got
		if nodes, ok := onceAt(ended()); !ok {
			t.Errorf("%d were told; want the nodes where it was in the queue", nodes)
		}
		for i, m := range all {
			if s := m.stateOf(name); s.Waiters > 0 {
				t.Errorf("node %d still has %+v", i, s)
			}
		}
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestVotesEndLull: a waiter that pauses takes the lease that it is handed meanwhile.
func TestVotesEndLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &search{d: start(t, masters(3), nil), req: renewing(), wake: make(chan struct{}, 1)}
		s.turn = &turn{quorum: 2, wake: s.wake, settled: make(chan struct{}, 1)}
		seq := s.turn.asks()
		signal(s.wake) // a message of before
		time.AfterFunc(time.Second, func() { s.turn.told(Message{Token: 7, Seq: seq, Run: "one"}) })
		time.AfterFunc(time.Second+time.Millisecond, func() { s.turn.told(Message{Token: 7, Seq: seq, Run: "two"}) })
		began := driver.Now()
		if propose, err := s.lull(t.Context(), time.Minute); !propose || err != nil {
			t.Errorf("lull = %t, %v; want the votes", propose, err)
		}
		elapsed(t, began, time.Second+time.Millisecond)
		s.turn = &turn{quorum: 2, wake: s.wake, settled: make(chan struct{}, 1)}
		began = driver.Now()
		if propose, err := s.lull(t.Context(), time.Minute); propose || err != nil {
			t.Errorf("lull = %t, %v; want no votes", propose, err)
		}
		elapsed(t, began, time.Minute)
	})
}

// TestPauseOfFarNodes: however far away the nodes seem to be, a waiter that has votes proposes while they last.
func TestPauseOfFarNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, masters(3), nil)
		for _, m := range d.members {
			m.trip.Store(int64(10 * time.Second))
		}
		s := &search{d: d, req: renewing(), wake: make(chan struct{}, 1)}
		s.turn = &turn{quorum: 2, wake: s.wake, settled: make(chan struct{}, 1)}
		s.turn.told(Message{Token: 7, Seq: s.turn.asks(), Run: "one"})
		began := driver.Now()
		if propose, err := s.lull(t.Context(), time.Minute); !propose || err != nil {
			t.Errorf("lull = %t, %v; want that it proposes", propose, err)
		}
		if took := driver.Now().Sub(began); took > claimFor/2 {
			t.Errorf("it paused for %v, and its votes last for %v", took, claimFor)
		}
	})
}
