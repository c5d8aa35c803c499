// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

func acquireMany(t *testing.T, c *pawl.Client, many int) []*pawl.Lease {
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
		for _, l := range acquireMany(t, open(t, d, &pawl.Options{TTL: ttl}), 10000) {
			<-l.Done()
			if got, want := time.Since(began), ttl-driver.Drift(ttl); got != want {
				t.Fatalf("a lease ended after %v, want %v", got, want)
			}
		}
		if n := most.Load(); n > 8192 || n < 100 {
			t.Errorf("%d renewals at once, want up to 8192", n)
		}
	})
}

// A part of the store that hangs costs only the leases that it has, as one node of a cluster.
func TestHangingPartCostsItsOwnLeasesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &parts{Store: new(memlock.Store).Participant(), takes: 9 * time.Second}
		c := open(t, d, &pawl.Options{TTL: 30 * time.Second})
		hung := acquireMany(t, c, 4000)
		well := make([]*pawl.Lease, 100)
		for i := range well {
			well[i] = acquire(t, c, fmt.Sprint("well/", i))
		}
		time.Sleep(time.Minute)
		d.hangs.Store(true)
		time.Sleep(2 * time.Minute)
		for _, l := range well {
			if err := l.Err(); err != nil {
				t.Fatalf("a lease of the part that answers: %v", err)
			}
		}
		for _, l := range hung {
			if l.Err() == nil {
				t.Fatal("a lease of the part that hangs is not lost")
			}
		}
	})
}

// A part of the store that hangs does not keep the leases of the others from being given back together.
func TestReleaseOfAllWhileAPartHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := &parts{Store: s.Participant()}
		c := open(t, d, nil)
		all, err := c.AcquireAll(t.Context(), []string{"well/1", "x", "y", "well/2", "z"})
		if err != nil {
			t.Fatal(err)
		}
		d.hangs.Store(true)
		go all.Release(context.Background())
		synctest.Wait()
		other := open(t, s.Participant(), nil)
		wantFree(t, other, "well/1", "well/2")
	})
}

// parts is a store of which all may hang but what has to do with names that begin with "well/".
type parts struct {
	driver.Store
	hangs atomic.Bool
	takes time.Duration
}

func (d *parts) Caps() driver.Caps {
	c := d.Store.Caps()
	c.CrossHost = true
	return c
}

func (d *parts) hang(ctx context.Context, name string) error {
	if !d.hangs.Load() || strings.HasPrefix(name, "well/") {
		time.Sleep(d.takes)
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (d *parts) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if err := d.hang(ctx, l.Name); err != nil {
		return driver.Renewal{}, err
	}
	return d.Store.Renew(ctx, l, ttl)
}

func (d *parts) End(ctx context.Context, l driver.Ref, how driver.End) (bool, error) {
	if err := d.hang(ctx, l.Name); err != nil {
		return false, err
	}
	return d.Store.End(ctx, l, how)
}
