// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// heldUp does something before a script is sent, once, as if its caller had been
// stopped there.
func heldUp(s *party, script int, before func()) {
	s.server.Before = func(now int) {
		if script == now && before != nil {
			do := before
			before = nil
			do()
		}
	}
}

// TestDowngradeBesideARenewal: a renewal that was begun before does not revive the exclusive lease.
func TestDowngradeBesideARenewal(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	g := take(t, a, long("deploy"))
	var shared *participant.Lease
	heldUp(a, extendScript, func() { shared = lowered(t, g, long("deploy")) })
	if _, err := g.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrReleased) {
		t.Errorf("Renew = %v; want ErrLost or ErrReleased", err)
	}
	release(t, g)
	reader := take(t, b, reading(long("deploy")))
	release(t, shared)
	release(t, reader)
	release(t, take(t, b, long("deploy")))
}
