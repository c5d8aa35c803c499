// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestHangingDial: the connection ends while nobody asks for anything, and the server
// accepts the next one but says nothing there. Who asks then waits no longer than its
// context, although making the connection takes longer.
func TestHangingDial(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.addr)
	for range 3 {
		a := openThrough(t, link, longOptions())
		g := take(t, a.store, long("deploy"))
		link.Set(drivertest.BlackHole)
		link.Redirect(r.addr) // which closes what there is
		time.Sleep(20 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		if _, err := g.Renew(ctx, time.Minute); err == nil {
			t.Error("Renew = nil without a server")
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("Renew took %v with 300 ms to do it in", d)
		}
		cancel()
		link.Set(drivertest.Healthy)
		if !eventually(patience, func() bool { return g.Release(t.Context()) == nil }) {
			t.Error("the lease is not released when the server is there again")
		}
		a.Close()
	}
}
