// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
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

// TestFloorsOfEachOther: a name that one of the two packages has locked can be locked by the
// other at the same server, with a larger token, whichever layout the floor has.
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
		set := []*driver.Request{long(), long()}
		set[1].Name = "another"
		grants, err := one.(driver.Sets).TryAcquireAll(t.Context(), set)
		if err != nil {
			t.Fatalf("TryAcquireAll after %s = %v; want grants", former, err)
		}
		rises("a set after "+former, grants[0].Token())
		for _, g := range grants {
			if err := g.Release(t.Context()); err != nil {
				t.Errorf("Release = %v; want nil", err)
			}
		}
	}
}
