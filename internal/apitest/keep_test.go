// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

const many = 2500

func acquireMany(t *testing.T, c *pawl.Client) []*pawl.Lease {
	leases := make([]*pawl.Lease, many)
	for i := range leases {
		leases[i] = acquire(t, c, strconv.Itoa(i))
	}
	return leases
}

// A store that hangs gets a bounded number of requests, and every lease ends at
// its deadline all the same.
func TestHangingStoreGetsFewRenewalsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		var now, most atomic.Int64
		set(d, &d.renew, func(ctx context.Context, _ func() (driver.Renewal, error)) (driver.Renewal, error) {
			for n := now.Add(1); ; {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			defer now.Add(-1)
			<-ctx.Done()
			return driver.Renewal{}, ctx.Err()
		})
		const ttl = 10 * time.Second
		began := time.Now()
		for _, l := range acquireMany(t, open(t, d, &pawl.Options{TTL: ttl})) {
			<-l.Done()
			if got, want := time.Since(began), ttl-driver.Drift(ttl); got != want {
				t.Fatalf("a lease ended after %v, want %v", got, want)
			}
		}
		if n := most.Load(); n > 1024 || n < 100 {
			t.Errorf("%d renewals at once, want up to 1024", n)
		}
	})
}

// A store that is slow renews all the same, even if everything is due at once.
func TestSlowStoreRenewsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.renew, func(_ context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
			since, err := ask()
			time.Sleep(time.Second)
			return since, err
		})
		leases := acquireMany(t, open(t, d, &pawl.Options{TTL: 30 * time.Second}))
		time.Sleep(2 * time.Minute)
		for _, l := range leases {
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
