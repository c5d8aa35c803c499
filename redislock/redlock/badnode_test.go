// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// cut is a master that one client does not reach.
type cut struct{ *master }

func (c cut) Propose(context.Context, nodewire.Proposal) (nodewire.Vote, error) {
	return nodewire.Vote{}, errRefused
}
func (c cut) Enqueue(context.Context, nodewire.Place) (nodewire.State, error) {
	return nodewire.State{}, errRefused
}
func (c cut) End(context.Context, nodewire.Ending) (had, next bool, err error) {
	return false, false, errRefused
}

// renamed is a master with another address.
type renamed struct{ *master }

func (r renamed) Addr() string { return "other " + r.addr }

// The nodes of one of them are changed before, and the first node after they have begun.
func contend(t *testing.T, n int, theirs func(ns []nodewire.Node), disturb func(bad *master)) (leases int) {
	all := masters(n)
	wan(all, 200*time.Microsecond, 1)
	d := start(t, all, nil)
	ns := nodes(all)
	theirs(ns)
	other, err := newStore(t.Context(), ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	disturb(all[0])
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	counts := make(chan int)
	for _, d := range []*store{d, other} {
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
				release(t, g)
			}
			counts <- count
		}()
	}
	leases = <-counts + <-counts
	setAll(all, nil)
	return leases
}

// TestBadNode: a node that is worse than the others does not make hand-overs slower.
func TestBadNode(t *testing.T) {
	same, well := func([]nodewire.Node) {}, func(*master) {}
	for _, n := range []int{3, 5} {
		healthy := 0
		for _, c := range []struct {
			what    string
			theirs  func(ns []nodewire.Node)
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
			{"a client does not reach it", func(ns []nodewire.Node) { ns[0] = cut{ns[0].(*master)} }, well},
			{"a client has other names for the nodes", func(ns []nodewire.Node) {
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

// take with that TTL.
func TestSilentNodeAndALongTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		opts := &Options{}
		opts.MaxTTL = time.Hour
		g := try(t, start(t, all, opts))
		d := start(t, all, opts)
		bad := all[0]
		bad.set(always(fault{lost: true}))
		req := renewing()
		req.TTL = time.Hour
		got := acquire(t.Context(), d, req)
		time.Sleep(20 * time.Millisecond)
		release(t, g)
		released := driver.Now()
		next := <-got
		elapsed(t, released, 0)
		bad.set(nil)
		release(t, next)
		time.Sleep(time.Minute)
	})
}

// TestSplitBesideASilentNode: where the other nodes are split, nobody waits for one that is silent: neither an attempt nor
// a waiter that looks.
func TestSplitBesideASilentNode(t *testing.T) {
	withStore(t, 5, func(t *testing.T, all []*master, d *store) {
		all[4].set(always(fault{lost: true}))
		const left = 200 * time.Millisecond // in which there are an attempt and some looks
		for _, m := range all[:2] {
			m.mu.Lock()
			m.Model.Propose(nodewire.Proposal{Name: name, Lease: "other", Token: 1, TTL: left, Record: "-"})
			m.mu.Unlock()
		}
		began := driver.Now()
		g := <-acquire(t.Context(), d, renewing())
		if took := driver.Now().Sub(began); g == nil || took < left || took > silence/2 {
			t.Errorf("Acquire = %v after %v; want a grant soon after %v", g, took, left)
		}
		all[4].set(nil)
		time.Sleep(time.Minute)
	})
}
