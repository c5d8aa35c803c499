// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// clusterMovedReaders: readers, one of which was a writer, renew their leases while the slot
// moves. A downgrade, and a set of names, wait for that, and leave nothing half-done.
func clusterMovedReaders(t *testing.T, c *testCluster) {
	a, b := open(t, c.url(), longOptions()), open(t, c.url(), longOptions())
	name := c.nameOn(0, "readers")
	writer := take(t, a, long(name))
	w := wait(t, c.masters[0], b, reading(long(name)))
	readers := []*participant.Lease{writer}
	lower := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		g, err := writer.Downgrade(ctx, reading(long(name)))
		if err == nil {
			readers[0] = g
		}
		return err
	}
	renew := func() {
		t.Helper()
		for _, g := range readers {
			renews(t, g)
		}
	}
	c.move(name, c.masters[0], c.masters[1], func() {
		if err := lower(); err == nil {
			t.Error("Downgrade = nil while the slot is moving")
		}
		renew()
	})
	renew()
	c.bless(longOptions())
	await(t, "Downgrade does not succeed", func() bool { return lower() == nil })
	readers = append(readers, w.granted(patience), take(t, b, reading(long(name))))
	for i := range 4 {
		c.move(name, c.masters[1-i%2], c.masters[i%2], func() {
			renew()
		})
		renew()
		c.bless(longOptions())
		if info, err := b.Inspect(t.Context(), name); err != nil || len(info.Holders) != len(readers) {
			t.Errorf("Inspect = %+v, %v; want %d readers", info, err, len(readers))
		}
		fails(t, "TryAcquire of a writer", errorOf(b.TryAcquire(t.Context(), long(name))), driver.ErrHeld)
	}
	for _, g := range readers {
		release(t, g)
	}
	c.bless(longOptions())
	release(t, take(t, b, long(name)))
	c.move(name, c.masters[1], c.masters[0], nil)
	c.bless(longOptions())
}
