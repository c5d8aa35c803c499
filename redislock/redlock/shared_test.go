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

// reader is a new attempt to share the name.
func reader() *driver.Request {
	req := request()
	req.Shared = true
	return req
}

func tryShared(t *testing.T, d *store) *grant {
	t.Helper()
	g, err := d.TryAcquire(t.Context(), reader())
	if err != nil {
		t.Fatalf("TryAcquire of a reader = %v; want a grant", err)
	}
	synctest.Wait()
	return g
}

// refused checks that d does not get what req asks for.
func refused(t *testing.T, d *store, req *driver.Request) {
	t.Helper()
	if g, err := d.TryAcquire(t.Context(), req); g != nil || !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire (shared %t) = %v, %v; want ErrHeld", req.Shared, g, err)
	}
	synctest.Wait()
}

// acquire waits in the background.
func acquire(ctx context.Context, d *store, req *driver.Request) <-chan *grant {
	got := make(chan *grant, 1)
	go func() {
		g, _ := d.Acquire(ctx, req)
		got <- g
	}()
	return got
}

// TestReadersHeal: a node that has lost its readers gets back those too that have not
// the largest token, but none that a writer has overtaken.
func TestReadersHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		d, other := start(t, all, nil), start(t, all, nil)
		first, second := tryShared(t, d), tryShared(t, other)
		renew := func(g *grant) {
			t.Helper()
			renew(t, g, 10*time.Second)
			synctest.Wait()
		}
		has := func(lease string) bool {
			for _, l := range all[0].stateOf(name).Locks {
				if l.Lease == lease {
					return true
				}
			}
			return false
		}
		forget := func() {
			for _, g := range []*grant{first, second} {
				if _, _, err := all[0].End(t.Context(), nodewire.Ending{Name: name, Lease: g.lease}); err != nil {
					t.Fatal(err)
				}
			}
		}
		forget()
		renew(second)
		renew(first)
		if !has(first.lease) || !has(second.lease) {
			t.Errorf("after renewals the node has %+v; want both readers", all[0].stateOf(name))
		}
		forget()
		all[0].mu.Lock()
		all[0].Model.Propose(nodewire.Proposal{Name: name, Lease: "writer", Token: second.token + 1, TTL: time.Second, Record: "{}"})
		all[0].mu.Unlock()
		time.Sleep(2 * time.Second)
		renew(second)
		renew(first)
		if has(first.lease) || has(second.lease) {
			t.Errorf("after a writer the node has %+v; want nobody", all[0].stateOf(name))
		}
	})
}

// TestLossBehindAWish: a reader that a writer has overtaken is told at once that its lease
// is lost, also where another writer waits by then.
func TestLossBehindAWish(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := tryShared(t, d)
		for _, m := range all {
			m.mu.Lock()
			n := m.Name(name)
			n.Locks = nil
			n.Store(g.token+1, "writer", false)
			n.Wishes["another"] = time.Now().Add(lookEvery)
			m.mu.Unlock()
		}
		if _, err := g.Renew(t.Context(), 10*time.Second); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew = %v; want ErrLost", err)
		}
	})
}

// TestOvertakenReader: a lease overtakes a reader that has looked, and ends before the reader listens again.
func TestOvertakenReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		h := try(t, start(t, all, nil))
		got := acquire(t.Context(), start(t, all, nil), reader())
		time.Sleep(300 * time.Millisecond)
		for _, m := range all {
			m.set(func(op string) fault {
				switch op {
				case "propose":
					return fault{before: 50 * time.Millisecond}
				case "enqueue":
					return fault{before: 5 * time.Millisecond}
				}
				return fault{}
			})
		}
		h.Release(t.Context()) // the reader looks, and proposes
		time.Sleep(20 * time.Millisecond)
		others(all, "other")
		time.Sleep(36500 * time.Microsecond)
		for _, m := range all {
			_, _, _ = m.End(t.Context(), nodewire.Ending{Name: name, Lease: "other", Held: true})
			m.set(nil)
		}
		ended := driver.Now()
		g := <-got
		if took := driver.Now().Sub(ended); took > 100*time.Millisecond {
			t.Errorf("the reader gets the free name after %v", took)
		}
		g.Release(t.Context())
	})
}
