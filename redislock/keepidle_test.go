// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
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
	bless(t, r.url(), opts)
	c, other := openClient(t, r.url(), opts), openClient(t, r.url(), opts)
	keepIdle(t, c, other, "deploy")
	keptIdle(t, c, "unheard")
	r.do("client", "kill", "type", "pubsub")
	await(t, "a lease is kept although nobody can ask for it", func() bool {
		info, err := other.Inspect(t.Context(), "unheard")
		return err == nil && len(info.Holders) == 0
	})
}

func clusterKeepIdle(t *testing.T, c *testCluster) {
	mine, other := openClient(t, c.url(), longOptions()), openClient(t, c.url(), longOptions())
	for i := range c.masters {
		keepIdle(t, mine, other, c.nameOn(i, "kept"))
	}
}

// keptIdle has c keep a name, and returns the last token of it. A client that has just
// opened may not hear yet that others want it.
func keptIdle(t *testing.T, c *pawl.Client, name string) (last pawl.Token) {
	t.Helper()
	id := ""
	await(t, "nothing is kept", func() bool {
		l := acquire(t, c, name, pawl.KeepIdle(time.Hour))
		same := l.ID() == id
		if l.Token() <= last || same && l.Token() != last+1 {
			t.Fatalf("token %d after %d", l.Token(), last)
		}
		id, last = l.ID(), l.Token()
		release(t, l)
		return same
	})
	return last
}

// keepIdle has another client want what c keeps.
func keepIdle(t *testing.T, c, other *pawl.Client, name string) {
	t.Helper()
	await(t, "Acquire of another client does not get what nobody uses", func() bool {
		last := keptIdle(t, c, name)
		if info, err := other.Inspect(t.Context(), name); err != nil || len(info.Holders) == 1 && !info.Holders[0].Keeps {
			t.Errorf("Inspect = %+v, %v; want a holder that keeps the name", info, err)
		}
		began := time.Now()
		l, err := other.Acquire(t.Context(), name)
		if err != nil || l.Token() <= last {
			t.Fatalf("Acquire = %v, token after %d", err, last)
		}
		took := time.Since(began)
		release(t, l)
		return took < lookEvery/2 // else a look has found it, and no message
	})
}
