// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// oneByOne makes a master carry requests out one after the other, each in the time each.
func (m *master) oneByOne(each time.Duration) {
	var idle time.Time // when it has done all
	m.set(func(string) fault {
		now := time.Now()
		if idle.Before(now) {
			idle = now
		}
		idle = idle.Add(each)
		return fault{before: idle.Sub(now)}
	})
}

// ownName returns a request for a name that nobody else wants.
func ownName(i int) *driver.Request {
	req := request()
	req.Name = fmt.Sprint(name, "-", i)
	req.TTL = 2 * time.Second
	return req
}

// TestOverload: 2,048 goroutines ask for names of their own in the same instant, again and
// again, and the nodes need 200 ms for one request of each: far more than the node timeout.
// All get their leases, at the first attempt.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, each = 2048, 2
		all := masters(5)
		d := start(t, all, nil)
		for _, m := range all {
			m.oneByOne(100 * time.Microsecond)
		}
		var wait sync.WaitGroup
		var failed atomic.Pointer[error]
		for i := range goroutines {
			wait.Go(func() {
				for range each {
					g, err := d.TryAcquire(t.Context(), ownName(i))
					if err == nil {
						err = g.Release(t.Context())
					}
					if err != nil {
						failed.CompareAndSwap(nil, &err)
						return
					}
				}
			})
		}
		wait.Wait()
		if err := failed.Load(); err != nil {
			t.Error(*err)
		}
		if n := d.rounds.Load(); n != goroutines*each {
			t.Errorf("%d rounds; want one for each of %d grants", n, goroutines*each)
		}
		time.Sleep(time.Second) // the last nodes of each release
		for _, m := range all {
			if _, most := m.load(); most > 3*maxRoom {
				t.Errorf("%s had %d requests at once; want some %d", m.addr, most, 2*maxRoom)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			for i := range goroutines {
				if n := m.Name(fmt.Sprint(name, "-", i)); len(n.Ended)+len(n.Locks) > 0 {
					t.Fatalf("%s remembers %d ends and has %d locks; want none", m.addr, len(n.Ended), len(n.Locks))
				}
			}
		}
	})
}

// TestFullGate: while no more calls are let in, one whose context ends has sent nothing, a
// lease is renewed and given back all the same, and with room again the next is let in.
func TestFullGate(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := try(t, d)
		fill(t, d, wanting)
		before := all[0].calls
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.TryAcquire(ctx, ownName(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TryAcquire = %v; want the context's error", err)
		}
		if n := all[0].calls - before; n != 0 {
			t.Errorf("%d requests; want none", n)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		next := acquire(t.Context(), d, ownName(2))
		if _, err := g.Renew(ctx, 10*time.Second); err != nil {
			t.Errorf("Renew = %v", err)
		}
		if err := g.Release(ctx); err != nil {
			t.Errorf("Release = %v", err)
		}
		synctest.Wait()
		select {
		case g := <-next:
			t.Errorf("Acquire = %v; want it to wait", g)
		default:
		}
		d.leave(wanting)
		if g := <-next; g == nil {
			t.Error("no lease, with room for one call")
		}
	})
}

// TestCloseWithAFullGate: Close does not wait for calls that have not been let in.
func TestCloseWithAFullGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, masters(3), nil)
		fill(t, d, wanting)
		got := make(chan error)
		go func() {
			_, err := d.Acquire(t.Context(), ownName(1))
			got <- err
		}()
		synctest.Wait()
		began := driver.Now()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := <-got; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Acquire = %v; want ErrClosed", err)
		}
		elapsed(t, began, 0)
	})
}
