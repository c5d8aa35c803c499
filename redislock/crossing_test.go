// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// heldUp does something before a script is sent, once, as if its caller had been
// stopped there.
func heldUp(s *store, script int, before func()) {
	s.server.Before = func(now int) {
		switch {
		case script == secondRead && now == nextRead:
			script = nextRead
		case script == now && before != nil:
			do := before
			before = nil
			do()
		}
	}
}

const nextRead, secondRead = -1, -2 // instead of a script

// TestInspectBesideHandOver: the last reader hands the lock over to a writer between the
// two looks at it. It was never free.
func TestInspectBesideHandOver(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	reader := take(t, a, reading(long("deploy")))
	w := wait(t, r, b, long("deploy"))
	heldUp(a, secondRead, func() { release(t, reader); w.granted(patience) })
	info, err := a.Inspect(t.Context(), "deploy")
	if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != driver.Token(w.grant.Token()) || info.Holders[0].Expires.IsZero() {
		t.Errorf("Inspect = %+v, %v; want the writer", info, err)
	}
}

// TestDowngradeBeside: the lease becomes a shared one while a renewal, or the release, is
// on its way that was begun before.
func TestDowngradeBeside(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	b := openLong(t, r)
	downgrade := func(g driver.Grant) {
		if err := g.(driver.Downgrader).Downgrade(t.Context()); err != nil {
			t.Errorf("Downgrade = %v; want nil", err)
		}
	}
	t.Run("renewal", func(t *testing.T) {
		a := openLong(t, r)
		g := take(t, a, long("renewal"))
		heldUp(a, extendScript, func() { downgrade(g) })
		if _, err := g.Renew(t.Context(), time.Minute); err != nil {
			t.Errorf("Renew = %v; want nil", err)
		}
		release(t, g)
	})
	t.Run("release", func(t *testing.T) {
		a := openLong(t, r)
		g := take(t, a, long("release"))
		heldUp(a, releaseScript, func() { downgrade(g) })
		release(t, g)
		release(t, take(t, b, long("release")))
	})
}
