// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// TestKeepIdle: a lease that nobody uses costs its client no request, and others get the
// name when they ask.
func TestKeepIdle(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	// A lease is kept for half of its TTL, which is longer than the test waits.
	opts := &Options{MaxTTL: 4 * patience, Options: pawl.Options{TTL: 4 * patience}}
	if err := Bless(t.Context(), r.url(), opts); err != nil {
		t.Fatal(err)
	}
	open := func() *pawl.Client {
		locks, err := Open(t.Context(), r.url(), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locks.Close() })
		return locks
	}
	c, other := open(), open()
	keepIdle(t, c, other, "deploy")
	keepIdleUnheard(t, r, c, other, "unheard")
}

func clusterKeepIdle(t *testing.T, c *testCluster) {
	open := func() *pawl.Client {
		locks, err := Open(t.Context(), c.url(), longOptions())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locks.Close() })
		return locks
	}
	mine, other := open(), open()
	for i := range c.masters {
		keepIdle(t, mine, other, c.nameOn(i, "kept"))
	}
}

// keptIdle has c keep a name, and returns the last token of it. A client that has just
// opened may not hear yet that others want it.
func keptIdle(t *testing.T, c *pawl.Client, name string) (last pawl.Token) {
	t.Helper()
	id := ""
	if !eventually(patience, func() bool {
		l, err := c.Acquire(t.Context(), name, pawl.KeepIdle(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		same := l.ID() == id
		if l.Token() <= last || same && l.Token() != last+1 {
			t.Fatalf("token %d after %d", l.Token(), last)
		}
		id, last = l.ID(), l.Token()
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return same
	}) {
		t.Fatal("nothing is kept")
	}
	return last
}

func keepIdle(t *testing.T, c, other *pawl.Client, name string) {
	t.Helper()
	for how, call := range map[string]func(context.Context, string, ...pawl.Option) (*pawl.Lease, error){
		"Acquire": other.Acquire, "TryAcquire": other.TryAcquire,
	} {
		// A busy machine may take longer than TryAcquire asks.
		if !eventually(patience, func() bool {
			last := keptIdle(t, c, name)
			began := time.Now()
			l, err := call(t.Context(), name)
			if errors.Is(err, pawl.ErrHeld) {
				return false
			}
			if err != nil || l.Token() <= last {
				t.Fatalf("%s = %v, token after %d", how, err, last)
			}
			took := time.Since(began)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
			return took < lookEvery/2 // else a look has found it, and no message
		}) {
			t.Errorf("%s of another client does not get what nobody uses", how)
		}
	}
	// In use, it is held.
	var l *pawl.Lease
	if !eventually(patience, func() bool {
		keptIdle(t, c, name)
		var err error
		if l, err = c.Acquire(t.Context(), name, pawl.KeepIdle(time.Hour)); err != nil {
			t.Fatal(err)
		}
		info, err := other.Inspect(t.Context(), name)
		if err == nil && len(info.Holders) == 1 && info.Holders[0].Keeps {
			return true
		}
		l.Release(t.Context())
		return false
	}) {
		t.Fatal("Inspect does not say that the client may keep it")
	}
	if _, err := other.TryAcquire(t.Context(), name); !errors.Is(err, pawl.ErrHeld) {
		t.Fatalf("TryAcquire = %v; want ErrHeld", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if info, err := other.Inspect(t.Context(), name); err != nil || len(info.Holders) > 0 {
		t.Errorf("what others want is kept: %+v, %v", info, err)
	}
}

// keepIdleUnheard: when messages may be lost, the lease is given back.
func keepIdleUnheard(t *testing.T, r *redis, c, other *pawl.Client, name string) {
	t.Helper()
	keptIdle(t, c, name)
	r.do("client", "kill", "type", "pubsub")
	if !eventually(patience, func() bool {
		info, err := other.Inspect(t.Context(), name)
		return err == nil && len(info.Holders) == 0
	}) {
		t.Error("a lease is kept although nobody can ask for it")
	}
}
