// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// crowd sees all leases on one name, of writers, of readers, and of writers that have become
// readers.
type crowd struct {
	stop   func()
	hurry  bool // all waits and holds are short
	mu     sync.Mutex
	leases []member // that were trusted when they were looked at last
	tokens struct{ any, exclusive pawl.Token }
	n      map[string]int
	wrong  []string
}

type member struct {
	*pawl.Lease
	alone bool
}

// saw reports no error falsely; see witness.saw. A reader may be seen before one whose
// token is smaller, a writer may not.
func (c *crowd) saw(l *pawl.Lease, alone bool, how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var trusted []member
	for _, m := range c.leases {
		if m.Err() == nil {
			trusted = append(trusted, m)
		}
	}
	c.leases = trusted
	if l.Err() != nil {
		return
	}
	for _, m := range trusted {
		if m.alone || alone {
			c.wrong = append(c.wrong, fmt.Sprintf("two leases are trusted at a time: tokens %d and %d, %s", m.Token(), l.Token(), how))
		}
	}
	if before := c.tokens.exclusive; l.Token() <= before {
		c.wrong = append(c.wrong, fmt.Sprintf("token %d after a writer's %d, %s", l.Token(), before, how))
	}
	if before := c.tokens.any; alone && l.Token() <= before {
		c.wrong = append(c.wrong, fmt.Sprintf("writer's token %d after %d, %s", l.Token(), before, how))
	}
	c.tokens.any = max(c.tokens.any, l.Token())
	if alone {
		c.tokens.exclusive = max(c.tokens.exclusive, l.Token())
	}
	c.leases = append(c.leases, member{l, alone})
	c.n[how]++
	if c.wrong != nil {
		c.stop()
	}
}

func (c *crowd) takeTurns(ctx context.Context, client *pawl.Client) {
	for ctx.Err() == nil {
		patient := 2 * time.Second
		if c.hurry {
			patient = 100 * time.Millisecond
		}
		waiting, cancel := context.WithTimeout(ctx, rand.N(patient))
		c.turn(waiting, client)
		cancel()
	}
}

func (c *crowd) turn(ctx context.Context, client *pawl.Client) {
	hold := rand.N(40 * time.Millisecond)
	if !c.hurry && rand.IntN(3) == 0 { // long enough for something to happen meanwhile
		hold = rand.N(800 * time.Millisecond)
	}
	sleep := func(l *pawl.Lease) {
		select {
		case <-l.Done():
		case <-time.After(hold):
		}
	}
	switch how := rand.IntN(8); how {
	case 0, 1: // several names at once, if they are free
		var opts []pawl.Option
		if how == 1 {
			opts = append(opts, pawl.Shared())
		}
		all, err := client.AcquireAll(ctx, []string{"deploy", "other"}, opts...)
		if err != nil {
			break
		}
		c.saw(all.Lease("deploy"), how == 0, "of a set")
		sleep(all.Lease("deploy"))
		_ = all.Release(ctx)
		return
	case 2, 3:
		l, err := client.Acquire(ctx, "deploy")
		if err != nil {
			break
		}
		c.saw(l, true, "of a writer")
		sleep(l)
		if how == 3 {
			if shared, err := l.Downgrade(ctx); err == nil {
				c.saw(shared, false, "lowered")
				sleep(shared)
				_ = shared.Release(ctx)
			}
		}
		_ = l.Release(ctx)
		return
	default:
		get := client.Acquire
		if how == 4 {
			get = client.TryAcquire
		}
		l, err := get(ctx, "deploy", pawl.Shared())
		if err != nil {
			break
		}
		c.saw(l, false, "of a reader")
		sleep(l)
		_ = l.Release(ctx)
		return
	}
	time.Sleep(rand.N(10 * time.Millisecond))
}

// TestChaosOfKinds is TestChaos with readers, writers, those that become readers, and
// sets of names.
func TestChaosOfKinds(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	opts := chaosOptions()
	ctx, cancel := context.WithTimeout(t.Context(), chaosDuration())
	defer cancel()
	w := &crowd{n: make(map[string]int)}
	runChaos(ctx, t, r, opts, allHarm, &w.stop, w.takeTurns)
	t.Logf("leases: %v", w.n)
	if len(w.n) == 0 {
		t.Error("nobody ever had the lock")
	}
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
	c, err := Open(t.Context(), r.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.AcquireAll(ctx, []string{"deploy", "other"}); err != nil {
		t.Errorf("when all is over, AcquireAll = %v", err)
	}
}

// TestChaosOfKindsIsSeen shows that TestChaosOfKinds can fail; see TestChaosIsSeen.
func TestChaosOfKindsIsSeen(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--rename-command", "INFO", "")
	opts := chaosOptions()
	opts.AllowUnguarded = true
	ctx, cancel := context.WithTimeout(t.Context(), seen)
	defer cancel()
	w := &crowd{n: make(map[string]int)}
	runChaos(ctx, t, r, opts, allHarm, &w.stop, w.takeTurns)
	if w.wrong == nil {
		t.Errorf("nothing wrong was seen in the leases %v", w.n)
	}
}

// TestNothingStays: whatever happens to links and requests, no holder and no waiter is
// left when all clients have gone, long before the TTL ends.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	opts := longOptions()
	opts.TTL = opts.MaxTTL
	ctx, cancel := context.WithTimeout(t.Context(), chaosDuration())
	defer cancel()
	w := &crowd{n: make(map[string]int), hurry: true}
	runChaos(ctx, t, r, opts, mildHarm, &w.stop, w.takeTurns)
	t.Logf("leases: %v", w.n)
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
	for _, name := range []string{"deploy", "other"} {
		key := lockKey(defaultPrefix, name)
		if !eventually(patience, func() bool { return r.do("exists", key, key+queueSuffix) == "0" }) {
			t.Errorf("%s is held by %q, and waited for by %q", name, r.do("zrange", key, "0", "-1"), r.do("zrange", key+queueSuffix, "0", "-1"))
		}
	}
}
