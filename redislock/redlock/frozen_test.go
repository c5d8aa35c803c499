// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// TestFrozenWaiters: clients that wait before a live one are stopped. A node gives the name to the first of them
// only: after that claim the client that looks takes it, however many are before it.
func TestFrozenWaiters(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		const frozen = 40
		waits := func(ctx context.Context, d *store) <-chan *grant {
			req := renewing()
			req.TTL = pawl.DefaultTTL
			defer time.Sleep(10 * time.Millisecond) // until it is in the queues
			return acquire(ctx, d, req)
		}
		first := try(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		var stopped []*linked
		for range frozen {
			l := openLinked(t, all, nil)
			defer l.party().Close()
			waits(ctx, l.store)
			stopped = append(stopped, l)
		}
		got := waits(t.Context(), start(t, all, nil))
		if n := all[0].stateOf(name).Waiters; n != frozen+1 {
			t.Fatalf("%d clients wait; want %d", n, frozen+1)
		}
		for _, l := range stopped {
			l.setCut(true)
		}
		free := driver.Now()
		release(t, first)
		g := <-got
		if took, most := driver.Now().Sub(free), claimFor*frozen/8; took < claimFor || took > most {
			t.Errorf("the name was free for %v; want the claim of one stopped client at least, and %v at most", took, most)
		}
		release(t, g)
		for _, l := range stopped {
			l.setCut(false)
		}
		cancel()
		synctest.Wait()
	})
}
