// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// heldUp does something before a script is sent, once, as if its caller had been
// stopped there.
type heldUp struct {
	keeper
	script int
	before func()
}

func (h *heldUp) stop(script int) {
	if before := h.before; script == h.script && before != nil {
		h.before = nil
		before()
	}
}

func (h *heldUp) Run(ctx context.Context, script int, keys, args []string) ([]rueidis.RedisMessage, driver.Instant, *conn.Failure) {
	h.stop(script)
	return h.keeper.Run(ctx, script, keys, args)
}

func (h *heldUp) RunReplicated(ctx context.Context, script int, keys, args []string) ([]rueidis.RedisMessage, driver.Instant, epoch.Source, *conn.Failure) {
	h.stop(script)
	return h.keeper.RunReplicated(ctx, script, keys, args)
}

func (h *heldUp) Read(ctx context.Context, keys []string, cmds func(rueidis.Builder, string) []rueidis.Completed) ([][]rueidis.RedisResult, error) {
	if h.script == secondRead {
		h.script = nextRead
	} else {
		h.stop(nextRead)
	}
	return h.keeper.Read(ctx, keys, cmds)
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
	a.server = &heldUp{a.server, secondRead, func() { release(t, reader); w.granted(patience) }}
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
		a.server = &heldUp{a.server, extendScript, func() { downgrade(g) }}
		if _, err := g.Renew(t.Context(), time.Minute); err != nil {
			t.Errorf("Renew = %v; want nil", err)
		}
		release(t, g)
	})
	t.Run("release", func(t *testing.T) {
		a := openLong(t, r)
		g := take(t, a, long("release"))
		a.server = &heldUp{a.server, releaseScript, func() { downgrade(g) }}
		release(t, g)
		release(t, take(t, b, long("release")))
	})
}
