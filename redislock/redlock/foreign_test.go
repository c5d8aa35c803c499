// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"fmt"
	"testing"
	"time"
)

// TestLeasesOfOneServer: slots and readers of package redislock at the nodes, under the
// same prefix, are no leases of redlock's: no reader joins them, and they stay as
// they are.
func TestLeasesOfOneServer(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, patient())
	d := dialFleet(t, f, patient())
	req := longReader()
	key := "pawl:{" + req.Name + "}"
	ends := fmt.Sprint(time.Now().Add(time.Minute).UnixMicro())
	for _, s := range f {
		s.do("zadd", key, ends, "lease client 2 {}", "-1795294374730851", "@lease client 2 {}")
	}
	if g, err := d.TryAcquire(t.Context(), req); err == nil {
		t.Errorf("TryAcquire of a reader = token %d; want an error", g.Token())
	}
	for _, s := range f {
		if n := s.do("zcard", key); n != "2" {
			t.Errorf("the slot has %s members now; want 2", n)
		}
	}
}
