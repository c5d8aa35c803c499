// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestHangingDial: the connection ends while there are no requests, and the server
// accepts the next one but is silent. A request then waits no longer than its context,
// although making the connection takes longer.
func TestHangingDial(t *testing.T) {
	t.Parallel()
	slow := drivertest.Late(t)
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.Addr)
	for range 3 {
		a := openThrough(t, link, longOptions())
		g := take(t, a.party, long("deploy"))
		link.Set(drivertest.BlackHole)
		link.Redirect(r.Addr) // which closes what there is
		time.Sleep(20 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		if _, err := g.Renew(ctx, time.Minute); err == nil {
			t.Error("Renew = nil without a server")
		}
		if d := time.Since(began); d > 3*time.Second+slow() {
			t.Errorf("Renew took %v with 300 ms to do it in", d)
		}
		cancel()
		link.Set(drivertest.Healthy)
		await(t, "the lease is not released when the server is there again", func() bool { return g.Release(t.Context()) == nil })
		a.Close()
	}
}

// TestManyRequestsToASilentServer: more requests than the connection has room for, to a
// server that has just answered and then says nothing, return when their contexts end.
// So do later ones, and when the server answers again all work as before.
func TestManyRequestsToASilentServer(t *testing.T) {
	t.Parallel()
	slow := drivertest.Late(t)
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.Addr)
	a := openThrough(t, link, longOptions())
	defer a.Close()
	g := take(t, a.party, long("deploy"))
	link.Set(drivertest.BlackHole)
	// 375 are more than the 256 places of the connection, and few enough for some that come
	// later not to look for a goroutine of their own; see conn.Conn.
	for _, calls := range []int{375, 375, 1500} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				if _, err := g.Renew(ctx, time.Minute); err == nil {
					t.Error("Renew = nil without a server")
				}
			})
		}
		all.Wait()
		cancel()
		if d := time.Since(began); d > 3*time.Second+slow() {
			t.Fatalf("%d calls of Renew took %v with 300 ms to do it in", calls, d)
		}
	}
	link.Set(drivertest.Healthy)
	await(t, "the lease is not released when the server is there again", func() bool { return g.Release(t.Context()) == nil })
}

// TestCostOfAPair: an acquisition and its release have no goroutines, timers and
// contexts of their own, which is what the bound is about. It is not parallel: all
// allocations of the process are counted.
func TestCostOfAPair(t *testing.T) {
	if raceEnabled {
		t.Log("under the race detector allocations tell nothing")
		return
	}
	r := blessedServer(t)
	locks := openClient(t, r.url(), longOptions())
	ctx := context.Background()
	var allocs float64
	few := func() bool { // what else the process does counts, too, and more on a machine that is slow
		allocs = testing.AllocsPerRun(500, func() {
			l, err := locks.Acquire(ctx, "deploy")
			if err == nil {
				err = l.Release(ctx)
			}
			must(t, err)
		})
		return allocs <= 26
	}
	if !eventually(patience/10, few) {
		t.Errorf("%v allocations; want 25 or so", allocs)
	}
}
