// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestOtherType: what another program has in the keys of a lock is a refusal of every request. Nothing was recorded,
// and a caller hears it at once.
func TestOtherType(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	eventually(patience, func() bool { return listens(s) })
	lock := func(name string) string { return lockKey(defaultPrefix, name) }
	r.do("rpush", lock("a list"), "x")
	r.do("zadd", lock("a set"), "1", "x", "2", "y")
	r.do("set", lock("no queue")+queueSuffix, "x")
	r.do("set", s.server.FloorKey(lock("no floor")), "x")
	for _, name := range []string{"a list", "a set", "no queue", "no floor"} {
		for what, req := range map[string]*driver.Request{"exclusive": long(name), "shared": reading(long(name)), "slots": slot(long(name), 2)} {
			refused := func(call string, g *participant.Lease, err error) {
				t.Helper()
				if g != nil || !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) ||
					strings.Contains(err.Error(), "script:") || !strings.Contains(err.Error(), "choose another Prefix") {
					t.Errorf("%s, %s: %s = %v, %v; want ErrUnavailable, what to do, and nothing to give back", name, what, call, g, err)
				}
			}
			before := scriptCalls(r)
			g, err := s.TryAcquire(t.Context(), req)
			refused("TryAcquire", g, err)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			g, err = s.Acquire(ctx, req)
			refused("Acquire", g, err)
			cancel()
			if n := scriptCalls(r) - before; n > 4 {
				t.Errorf("%s, %s: %d requests until both calls had ended; want one each", name, what, n)
			}
		}
	}
	if err := s.Break(t.Context(), "a list", "LEASE", nil, ""); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Break = %v; want ErrUnavailable", err)
	}
	if n := r.do("zcard", lock("a set")); n != "2" {
		t.Errorf("the set has %s members now; want 2", n)
	}
}
