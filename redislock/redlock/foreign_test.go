// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
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

// TestHeldByEachOther: a lease of redlock keeps out package redislock at the same server,
// which says that the name is held.
func TestHeldByEachOther(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, patient())
	many := dialFleet(t, f, patient())
	one, err := redislock.NewDriver(t.Context(), "redis://"+f[0].Addr, &redislock.Options{MaxTTL: patient().MaxTTL})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	for _, theirs := range []*driver.Request{long(), longReader()} {
		g, err := many.TryAcquire(t.Context(), theirs)
		if err != nil || !eventually(patience, func() bool { return f[0].has(theirs.Name) }) {
			t.Fatalf("TryAcquire = %v; want a grant, also at the first node", err)
		}
		for _, ours := range []*driver.Request{long(), longReader()} {
			if _, err := one.TryAcquire(t.Context(), ours); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("redislock (shared %v) beside redlock (shared %v) = %v; want %v", ours.Shared, theirs.Shared, err, driver.ErrHeld)
			}
		}
		if err := g.Release(t.Context()); err != nil {
			t.Fatalf("Release = %v", err)
		}
		f.clear(t)
	}
}

// TestFloorsOfEachOther: a name that one of the two packages has locked can be locked by the
// other at the same server, and redislock has a larger token than redlock, whichever layout the floor has. The other way
// round it is the clocks that make it larger.
func TestFloorsOfEachOther(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	many := dialFleet(t, f, opts)
	one, err := redislock.NewDriver(t.Context(), "redis://"+f[0].Addr, &redislock.Options{MaxTTL: opts.MaxTTL})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	use := func(d driver.Driver, req *driver.Request) uint64 {
		t.Helper()
		g, err := d.TryAcquire(t.Context(), req)
		if err != nil {
			t.Fatalf("TryAcquire = %v; want a grant", err)
		}
		defer func() {
			if err := g.Release(t.Context()); err != nil {
				t.Errorf("Release = %v; want nil", err)
			}
			// A release of redlock is over when a quorum has answered.
			if !eventually(patience, func() bool { return !f[0].has(req.Name) }) {
				t.Error("the lock is still there after its release")
			}
		}()
		return g.Token()
	}
	var last uint64
	rises := func(what string, token uint64) {
		t.Helper()
		if token <= last {
			t.Errorf("the token of %s is %d; want more than %d", what, token, last)
		}
		last = token
	}
	key := "pawl:{" + long().Name + "}:token"
	rises("redlock", use(many, long()))
	rises("redislock", use(one, long()))
	rises("redlock after redislock", use(many, long()))
	rises("redlock's reader", use(many, longReader()))
	rises("redislock's reader after redlock's", use(one, longReader()))
	for _, former := range []string{"%d lease", "%d lease 5", "%d lease r 0 0"} {
		f[0].do("set", key, fmt.Sprintf(former, last+1_000_000))
		last += 1_000_000
		rises("redislock after "+former, use(one, long()))
		f[0].do("set", key, fmt.Sprintf(former, last+1_000_000))
		last += 1_000_000
	}
}
