// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// TestForgetfulNode: client 1 holds or shares A, B and C; C restarts empty; client 2 must not
// get C, D and E. Without quarantine it does.
func TestForgetfulNode(t *testing.T) {
	for i := range 4 {
		quarantine, get := i%2 == 0, []func(*testing.T, *store) *grant{try, tryShared}[i/2]
		synctest.Test(t, func(t *testing.T) {
			all := masters(5)
			client1, client2 := start(t, all, nil), start(t, all, nil)
			setAll(all[3:], always(fault{refused: true}))
			g := get(t, client1)
			all[2].restart(quarantine)
			setAll(all[3:], nil)
			setAll(all[:2], always(fault{refused: true}))
			second, err := client2.TryAcquire(t.Context(), request())
			switch {
			case quarantine && err == nil:
				t.Errorf("token %d while the lease with token %d is trusted", second.Token(), g.token)
			case !quarantine && err != nil:
				t.Errorf("TryAcquire without quarantine = %v; this test cannot fail", err)
			}
		})
	}
}

// TestClosedNodes: a waiter gets the name when enough nodes are open again, and
// renewals go on meanwhile.
func TestClosedNodes(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		for _, m := range all[:2] {
			m.restart(true)
		}
		began := driver.Now()
		if _, err := d.TryAcquire(t.Context(), request()); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("TryAcquire with two of three closed = %v; want ErrUnavailable", err)
		}
		for i, s := range d.Nodes(t.Context()) {
			if want := []time.Duration{time.Minute, time.Minute, 0}[i]; s.Closed != want || s.Err != nil || s.Addr != all[i].addr {
				t.Errorf("%s: %+v; want closed for %v", all[i].addr, s, want)
			}
		}
		g := await(t, d, request())
		if took := driver.Now().Sub(began); took < time.Minute || took > time.Minute+lookEvery {
			t.Errorf("it took %v; want the minute of the quarantine", took)
		}
		if n := d.rounds.Load(); n > 100 {
			t.Errorf("%d rounds in a minute: it wakes itself", n)
		}
		all[2].restart(true)
		for range 10 {
			time.Sleep(3 * time.Second)
			renew(t, g, 10*time.Second)
		}
	})
}

// TestOneClosedNode: two nodes have the lock of another and one is closed, so that
// neither has a quorum. A waiter does not take and free the other two all the time.
func TestOneClosedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		setAll(all, always(fault{before: time.Millisecond, after: time.Millisecond}))
		holder, waiter := start(t, all, nil), start(t, all, nil)
		req := request()
		g := get(t, holder, req)
		synctest.Wait()
		all[2].restart(true)
		for _, m := range all[3:] {
			if _, _, err := m.End(t.Context(), nodewire.Ending{Name: req.Name, Lease: req.Lease}); err != nil {
				t.Fatal(err)
			}
		}
		got := make(chan error, 1)
		go func() {
			next := request()
			g, err := waiter.Acquire(t.Context(), next)
			if err == nil {
				err = g.Release(t.Context())
			}
			got <- err
		}()
		time.Sleep(8 * time.Second)
		if n := waiter.rounds.Load(); n > 20 {
			t.Errorf("%d rounds in 8 s", n)
		}
		// Three do not have the lock any more: a quorum, if they answer first.
		if err := g.Release(t.Context()); err != nil && !errors.Is(err, driver.ErrLost) {
			t.Fatal(err)
		}
		began := driver.Now()
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if took := driver.Now().Sub(began); took > time.Second {
			t.Errorf("the waiter had the name %v after the release", took)
		}
	})
}
