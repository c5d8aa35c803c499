// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// TestHanded: a message that hands a name over is believed if it came over the connection
// that was open at the last look, is of this run, and is of after that look; and if enough is
// left of the claim, counted from before the server began it.
func TestHanded(t *testing.T) {
	const ttl = 20 * time.Second
	for _, c := range []struct {
		what   string
		change func(req *driver.Request, w *waiter, h *handed)
		want   bool
	}{
		{"in time", func(*driver.Request, *waiter, *handed) {}, true},
		{"without a look", func(_ *driver.Request, w *waiter, h *handed) { w.seen.from, h.from = 0, 0 }, false},
		{"over another connection", func(_ *driver.Request, w *waiter, h *handed) { h.from++ }, false},
		{"of another run", func(_ *driver.Request, w *waiter, h *handed) { h.timeline++ }, false},
		{"from before the look", func(_ *driver.Request, w *waiter, h *handed) { h.At = w.seen.At - time.Microsecond }, false},
		{"of after its arrival", func(_ *driver.Request, w *waiter, h *handed) { h.At += time.Hour }, false},
		{"for a caller that does not renew", func(req *driver.Request, _ *waiter, _ *handed) { req.Renewed = false }, false},
		{"that was held up", func(_ *driver.Request, w *waiter, _ *handed) { w.seen.Sent = w.seen.Sent.Add(-claimTTL * 2 / 3) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{run: run{timeline: 3}, waiters: make(map[string]*waiter), grants: make(map[string]*grant)}
			req := request("x", ttl)
			req.Renewed = true
			a := &attempt{s: s, req: req}
			w := &a.waiter
			sent := driver.Now()
			w.seen = look{storekit.Look{Sent: sent, At: time.Second}, 2}
			const later = 100 * time.Millisecond
			time.Sleep(later)
			w.handed = &handed{Claim: storekit.Claim{At: w.seen.At + later, For: claimTTL, Heard: driver.Now()}, token: 7, timeline: 3, from: 2}
			c.change(req, w, w.handed)
			g := a.take(w)
			if (g != nil) != c.want {
				t.Fatalf("a message %s: %+v", c.what, g)
			}
			if g == nil {
				return
			}
			// Trust ends with the claim, which began when the server said.
			ends := g.Since().Add(ttl - driver.Drift(ttl))
			if most := sent.Add(later + claimTTL); ends > most || ends < most.Add(-claimTTL/10) {
				t.Errorf("trust ends %v after the claim", ends.Sub(most))
			}
		})
	}
}
