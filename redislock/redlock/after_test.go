// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"testing"

	"github.com/pawl-go/pawl/redislock"
)

// TestOneServerBesideMany: redlock and redislock do not know of each other's locks, at one server.
func TestOneServerBesideMany(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	if err := redislock.Bless(t.Context(), "redis://"+f[0].Addr, &opts.Options); err != nil {
		t.Fatal(err)
	}
	many, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer many.Close()
	one, err := redislock.Open(t.Context(), "redis://"+f[0].Addr, &opts.Options)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if _, err := many.TryAcquire(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := one.TryAcquire(t.Context(), name); err != nil {
		t.Errorf("TryAcquire on one server = %v; want a lease beside that of redlock", err)
	}
}
