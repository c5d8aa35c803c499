// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestCluster has the tests that can share one cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	c.bless(longOptions())
	t.Run("Works", func(t *testing.T) {
		for _, url := range []string{c.url(), c.masters[0].url()} {
			works(t, url)
		}
	})
	t.Run("OwnClient", func(t *testing.T) { clusterOwnClient(t, c) })
	t.Run("List", func(t *testing.T) { clusterList(t, c) })
	t.Run("Messages", func(t *testing.T) { clusterMessages(t, c) })
	t.Run("KeepIdle", func(t *testing.T) { clusterKeepIdle(t, c) })
	t.Run("MovedSlot", func(t *testing.T) { clusterMovedSlot(t, c) })
	t.Run("MovedReaders", func(t *testing.T) { clusterMovedReaders(t, c) })
	t.Run("MovedWhileWaiting", func(t *testing.T) { clusterMovedWhileWaiting(t, c) })
	t.Run("StuckSlot", func(t *testing.T) { clusterStuckSlot(t, c) })
	t.Run("LeastRights", func(t *testing.T) { clusterLeastRights(t, c) })
}

// clusterList: List sees the names of all masters.
func clusterList(t *testing.T, c *testCluster) {
	s := open(t, c.url(), longOptions())
	var want []string
	for i := range namesPerRequest + 50 { // more than one request asks for
		name := fmt.Sprintf("list/%03d", i)
		want = append(want, name)
		defer release(t, take(t, s, long(name)))
	}
	infos, err := s.List(t.Context(), "list/")
	must(t, err)
	var got []string
	for _, info := range infos {
		got = append(got, info.Name)
		if len(info.Holders) != 1 || info.Holders[0].Who != "test" || info.Token == 0 {
			t.Errorf("List has %+v; want it with its holder", info)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("List has %d names; want %d", len(got), len(want))
	}
}

// clusterMessages: on every master waiters get a message, and need not look.
func clusterMessages(t *testing.T, c *testCluster) {
	a, b := open(t, c.url(), longOptions()), open(t, c.url(), longOptions())
	for i, r := range c.masters {
		name := c.nameOn(i, "told")
		// The first look would be after two seconds. The machine may be slow.
		if !eventually(patience, func() bool {
			g := take(t, a, long(name))
			first := wait(t, r, b, long(name))
			second := wait(t, r, a, long(name))
			began := driver.Now()
			release(t, g)
			release(t, first.granted(patience))
			release(t, second.granted(patience))
			return second.at.Sub(began) < lookEvery/2
		}) {
			t.Errorf("the waiters on master %d are not told", i)
		}
	}
}

// clusterMovedSlot: the slot of a lease moves to another node and back. The lease is
// renewed all the time, nobody else gets the name, and it is released where it is.
func clusterMovedSlot(t *testing.T, c *testCluster) {
	a, b := open(t, c.url(), longOptions()), open(t, c.url(), longOptions())
	name := c.nameOn(0, "moved")
	g := take(t, a, long(name))
	renew := func() {
		t.Helper()
		renews(t, g)
		if info, err := b.Inspect(t.Context(), name); err != nil || len(info.Holders) != 1 {
			t.Errorf("Inspect = %+v, %v; want the holder", info, err)
		}
	}
	for i := range 4 {
		c.move(name, c.masters[i%2], c.masters[1-i%2], renew)
		renew()
		fails(t, "TryAcquire", errorOf(b.TryAcquire(t.Context(), long(name))), driver.ErrHeld)
	}
	for range 5 {
		c.move(name, c.masters[0], c.masters[1], nil)
		c.move(name, c.masters[1], c.masters[0], nil)
	}
	renew()
	release(t, g)
	c.bless(longOptions())
	take(t, b, long(name))
}

// clusterMovedWhileWaiting: waiters follow the slot, in their order, and get their
// messages from the new node.
func clusterMovedWhileWaiting(t *testing.T, c *testCluster) {
	opts := longOptions()
	a, b := open(t, c.url(), opts), open(t, c.url(), opts)
	name := c.nameOn(1, "follow")
	g := take(t, a, long(name))
	first := wait(t, c.masters[1], b, long(name))
	second := wait(t, c.masters[1], a, long(name))
	c.move(name, c.masters[1], c.masters[2], nil)
	c.bless(opts)
	await(t, "the waiters do not follow", func() bool {
		return c.masters[2].do("pubsub", "shardchannels") != "" && queueLen(c.masters[2], name) == 2
	})
	release(t, g)
	release(t, first.granted(patience))
	release(t, second.granted(patience))
	if second.at < first.at {
		t.Error("the waiters have changed their order")
	}
	c.move(name, c.masters[2], c.masters[1], nil)
	c.bless(opts)
}

// clusterStuckSlot: while some keys of a lock are here and some there, nothing is
// granted, and nothing is done half-way.
func clusterStuckSlot(t *testing.T, c *testCluster) {
	a, b := open(t, c.url(), longOptions()), open(t, c.url(), longOptions())
	name := c.nameOn(2, "stuck")
	slot := c.slotOf(name)
	g := take(t, a, long(name))
	readers := []*participant.Lease{take(t, a, reading(long(name+"}"))), take(t, b, reading(long(name+"}")))} // in the same slot
	from, to := c.masters[2], c.masters[0]
	clusterHalfRelease(t, c, a, b, c.nameOn(2, "whole"))
	ctx, cancel := context.WithCancel(t.Context())
	waiter := make(chan error, 1)
	c.move(name, from, to, func() {
		_, err := b.TryAcquire(t.Context(), long(name))
		fails(t, "TryAcquire", err, driver.ErrUnavailable, "moving")
		short, end := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer end()
		if err := g.Release(short); err == nil {
			t.Error("Release = nil while the slot is moving")
		}
		for _, g := range append(readers, g) {
			renews(t, g)
		}
		go func() { // waits longer than a request would
			w, err := b.Acquire(ctx, long(name))
			if err == nil {
				err = w.Release(context.Background())
			}
			waiter <- err
		}()
		time.Sleep(2500 * time.Millisecond)
		select { // not later: the client repeats the release in the background
		case err := <-waiter:
			t.Errorf("Acquire = %v while the slot is moving", err)
		default:
		}
	})
	c.bless(longOptions())
	refusedBy(t, b, long(name+"}"), 2)
	for _, g := range append(readers, g) {
		release(t, g)
	}
	succeeds(t, "Acquire", within(t, "who waited while the slot moved still waits", waiter))
	cancel()
	if out := to.do("cluster", "countkeysinslot", slot); out == "0" {
		t.Error("the keys have not moved")
	}
	c.move(name, to, from, nil)
	c.bless(longOptions())
}

// clusterHalfRelease releases when all keys of the script are there yet, so that a node
// which is about to move them would begin: but the queue ends when its last member
// is taken out, and a key that does not exist is then another node's.
func clusterHalfRelease(t *testing.T, c *testCluster, a, b *party, name string) {
	from, to, slot, key := c.masters[2], c.masters[0], c.slotOf(name), lockKey(defaultPrefix, name)
	req := long(name)
	g := take(t, a, req)
	w := wait(t, from, b, long(name))
	from.do("set", key+endedSuffix+req.Lease, "", "px", "60000")
	from.do("set", key+queueSuffix+":claim", "", "px", "60000")
	before := from.do("get", key)
	c.must(to, "cluster", "setslot", slot, "importing", from.id)
	c.must(from, "cluster", "setslot", slot, "migrating", to.id)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := g.Release(ctx); err == nil || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Release = %v while the slot is moving; want an error from which it is clear that nothing was done", err)
	}
	if got := from.do("get", key); got != before {
		t.Errorf("the lock is %q; want %q", got, before)
	}
	c.must(from, "cluster", "setslot", slot, "stable")
	c.must(to, "cluster", "setslot", slot, "stable")
	release(t, g)
	release(t, w.granted(patience))
}
