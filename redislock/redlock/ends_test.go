// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
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

// TestEndAtAQuorum: where a lease is at a quorum of nodes only, its release says whether it was lost at one of them.
func TestEndAtAQuorum(t *testing.T) {
	for _, c := range []struct {
		what   string
		happen func(m *master)
		want   error
	}{
		{"nothing", func(*master) {}, nil},
		{"one has lost it", func(m *master) { m.restart(true) }, driver.ErrLost},
		{"one is down", func(m *master) { m.set(always(fault{refused: true})) }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := masters(5)
			others(all[:2], "other")
			g := try(t, start(t, all, nil))
			bad := all[3]
			c.happen(bad)
			began := driver.Now()
			if err := g.Release(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%s: Release = %v; want %v", c.what, err, c.want)
			}
			elapsed(t, began, 0)
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
		answers := c.propose(nodewire.Take, 2, time.Minute, time.Minute)
		for range all {
			<-answers
		}
		ended := requests(all, "end")
		c.end("", 0)
		if n := ended(); !slices.Equal(n, []int{0, 0, 0, 1, 1}) {
			t.Errorf("the nodes had %d endings; want them where the lock may be", n)
		}
		free(t, all, "other")
	})
}

// TestGivenUpQueues: whoever gives up leaves the queues that it was in.
func TestGivenUpQueues(t *testing.T) {
	withLease(t, 5, func(t *testing.T, all []*master, g *grant) {
		ctx, cancel := context.WithCancel(t.Context())
		got := acquire(ctx, start(t, all, nil), renewing())
		synctest.Wait()
		ended := requests(all, "end")
		cancel()
		<-got
		if n := ended(); !slices.Equal(n, []int{1, 1, 1, 1, 1}) {
			t.Errorf("the nodes had %d endings; want one each", n)
		}
		for i, m := range all {
			if s := m.stateOf(name); s.Waiters > 0 {
				t.Errorf("node %d still has %+v", i, s)
			}
		}
		release(t, g)
	})
}

// TestEndAfterTheEnd: a lease that its client counts as ended is lost, although nodes, which count from later, have it yet.
func TestEndAfterTheEnd(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		setAll(all, only("propose", fault{before: 100 * time.Millisecond}))
		asked := driver.Now()
		req := request()
		req.TTL = time.Second
		g := get(t, d, req)
		time.Sleep(asked.Add(1050 * time.Millisecond).Sub(driver.Now()))
		if all[0].lockOf(name).Lease == "" {
			t.Fatal("the node has no lock")
		}
		if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release = %v; want ErrLost", err)
		}
		synctest.Wait()
		free(t, all, "")
	})
}

// TestReleaseOfABrokenLease: the release is asked before the lease would have ended, and answered after it. It was broken long before,
// and somebody else has the name.
func TestReleaseOfABrokenLease(t *testing.T) {
	withLease(t, 3, func(t *testing.T, all []*master, g *grant) {
		for _, m := range all {
			m.tells = nil // messages get lost
			_, _, _ = m.End(t.Context(), nodewire.Ending{Name: name, Lease: g.lease, Held: true, News: "{}", Bar: true})
			m.set(only("end", fault{after: 600 * time.Millisecond}))
		}
		others(all, "other")
		time.Sleep(g.until.Sub(driver.Now()) - 300*time.Millisecond)
		if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release = %v; want ErrLost", err)
		}
	})
}

// TestEndAtAQuorumOnly: the context ends while the release waits for a node behind the quorum, whose answers differ.
func TestEndAtAQuorumOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		setAll(all, always(fault{before: 50 * time.Millisecond}))
		d := start(t, all, nil)
		held, _ := d.party().handles.Load(try(t, d).ID())
		all[0].restart(true)
		all[2].set(only("end", fault{before: time.Second}))
		ctx, cancel := context.WithTimeout(t.Context(), 51*time.Millisecond)
		defer cancel()
		if found, err := d.End(ctx, driver.Ref{Handle: held}, driver.End{}); !found || err != nil {
			t.Errorf("End = %t, %v; want true: a quorum has answered", found, err)
		}
		time.Sleep(2 * time.Second)
	})
}
