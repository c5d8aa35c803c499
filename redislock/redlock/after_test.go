// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock"
)

// TestOneServerAfterMany: a name that was had by redlock can be had by redislock on one of its
// masters, and the other way round, and tokens go on growing.
func TestOneServerAfterMany(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
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
	last := pawl.Token(0)
	for i, locks := range []*pawl.Client{many, one, many, one} {
		lease, err := locks.TryAcquire(t.Context(), name)
		if err != nil {
			t.Fatalf("lease %d: %v", i, err)
		}
		if lease.Token() <= last {
			t.Errorf("lease %d has token %d after %d", i, lease.Token(), last)
		}
		last = lease.Token()
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		f.clear(t)
	}
}
