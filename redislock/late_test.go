// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestLateLook: the look of a waiter is executed after the lease was granted on another
// connection, and has ended. It must not revive the lease without a holder, nor join
// the queue.
func TestLateLook(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.Addr)
	a, b := openThrough(t, link, longOptions()), openLong(t, r)
	defer a.Close()
	for name, end := range map[string]func(*driver.Request) error{
		"released": func(req *driver.Request) error {
			_, err := a.store.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease}, driver.End{Doubt: true})
			return err
		},
		"broken": func(req *driver.Request) error {
			return b.Break(t.Context(), req.Name, req.Lease, nil, "test")
		},
	} {
		req := long(name)
		queue := *req
		queue.Queue = true
		await(t, "no look is sent that cannot be answered", func() bool {
			// So the scripts are there, and the look is sent.
			if g, err := a.TryAcquire(t.Context(), long("other")); err != nil || g.Release(t.Context()) != nil {
				return false
			}
			link.Set(drivertest.BlackHole)
			defer link.Set(drivertest.Healthy)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := a.store.Ask(ctx, &queue)
			return err != nil && driver.FailureOf(err).Maybe
		})
		await(t, "the lock is not granted", func() bool { ans, _ := a.store.Ask(t.Context(), &queue); return ans.Granted })
		if err := end(req); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if ans, err := a.store.Ask(t.Context(), &queue); ans.Granted || !driver.FailureOf(err).Ended {
			t.Errorf("%s: the late look gets %v, %v; want that the lease has ended", name, ans, err)
		}
		if n := queueLen(r, name); n != 0 {
			t.Errorf("%s: %d wait; want nobody", name, n)
		}
		release(t, take(t, b, long(name)))
	}
}
