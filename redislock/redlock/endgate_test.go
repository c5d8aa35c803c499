// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// fill has the gate let in as many calls as it does.
func fill(t *testing.T, d *store, c class) {
	t.Helper()
	d.gate.room = maxRoom
	for range maxRoom {
		if err := d.enter(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// many returns leases of names of their own.
func many(t *testing.T, d *store, n int, ttl time.Duration) []*grant {
	t.Helper()
	all := make([]*grant, n)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() {
			req := ownName(i)
			req.TTL = ttl
			var err error
			if all[i], err = d.TryAcquire(t.Context(), req); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// TestRenewalBehindReleases: while a client gives 3,000 leases back, with nodes 100 ms away, another
// of its leases is renewed in one round trip.
func TestRenewalBehindReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		setAll(all, always(fault{before: 50 * time.Millisecond, after: 50 * time.Millisecond}))
		d := start(t, all, nil)
		const ttl = 3 * time.Second
		ends := many(t, d, 3000, 30*time.Second)
		mine := try(t, d)
		var wait sync.WaitGroup
		for _, g := range ends {
			wait.Go(func() { g.Release(t.Context()) })
		}
		synctest.Wait()
		began := driver.Now()
		renew(t, mine, ttl)
		elapsed(t, began, 100*time.Millisecond)
		wait.Wait()
	})
}

// TestManyRenewals: as many renewals as package pawl has under way at a time begin in the same
// instant, and nodes need 102 ms for one request of each. None fails.
func TestManyRenewals(t *testing.T) {
	withStore(t, 5, func(t *testing.T, all []*master, d *store) {
		leases := many(t, d, 1024, 6*time.Second)
		for _, m := range all {
			m.oneByOne(100 * time.Microsecond)
		}
		var wait sync.WaitGroup
		for _, g := range leases {
			wait.Go(func() {
				renew(t, g, 6*time.Second)
			})
		}
		wait.Wait()
	})
}

// TestVotedAtAFullGate: a waiter that does not renew, and so proposes when nodes have voted for it,
// does not wait for others that want a lease until the votes have expired.
func TestVotedAtAFullGate(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := try(t, start(t, all, nil))
		got := acquire(t.Context(), d, request())
		synctest.Wait()
		fill(t, d, wanting)
		release(t, g)
		select {
		case next := <-got:
			next.Release(t.Context())
		case <-time.After(claimFor / 2):
			t.Error("the waiter that nodes have voted for does not have the lease")
			d.leave(wanting)
			<-got
		}
	})
}

// TestOutageBehindTheGate: a waiter that was at the gate for longer than its TTL bears an outage that
// is short.
func TestOutageBehindTheGate(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := try(t, start(t, all, nil))
		req := request()
		req.TTL = 2 * time.Second
		got := acquire(t.Context(), d, req)
		synctest.Wait()
		fill(t, d, wanting)
		time.Sleep(5 * time.Second)
		setAll(all, always(fault{lost: true}))
		d.leave(wanting)
		time.Sleep(100 * time.Millisecond)
		setAll(all, nil)
		release(t, g)
		if next := <-got; next == nil {
			t.Error("the waiter has given up after 100 ms without an answer")
		} else {
			next.Release(t.Context())
		}
	})
}

// TestGivenUpBehindTheGate: attempts whose contexts end let nobody in until their requests are
// answered.
func TestGivenUpBehindTheGate(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		setAll(all, always(fault{before: 40 * time.Millisecond}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		var wait sync.WaitGroup
		for i := range maxRoom {
			wait.Go(func() {
				if g, err := d.TryAcquire(ctx, ownName(i)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("TryAcquire = %v, %v; want the context's error", g, err)
				}
			})
		}
		wait.Wait()
		began := driver.Now()
		try(t, d)
		elapsed(t, began, 80*time.Millisecond)
	})
}

// TestReleaseThatWaits: a lease that was given back in time ends while its release waits for others. It was not lost. One
// whose time is over before is.
func TestReleaseThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, masters(3), nil)
		leases := many(t, d, 2, 2*time.Second)
		fill(t, d, ending)
		time.AfterFunc(3*time.Second, func() {
			for range maxRoom {
				d.leave(ending)
			}
		})
		if err := leases[0].Release(t.Context()); err != nil {
			t.Errorf("Release that has waited until the lease ended = %v; want nil", err)
		}
		if err := leases[1].Release(t.Context()); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release after the end of the lease = %v; want ErrLost", err)
		}
	})
}
