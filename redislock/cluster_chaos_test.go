// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestClusterChaos is TestChaos for what can happen to a cluster: slots move, with their
// keys and without, and masters are stopped, restarted empty and erased.
func TestClusterChaos(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	opts := chaosOptions()
	w := runClusterChaos(t, c, opts, chaosDuration(), 12)
	t.Logf("%d leases", w.n)
	if w.n == 0 {
		t.Error("nobody ever had the lock")
	}
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
	locks, err := Open(t.Context(), c.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if !inTime(3*patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = locks.Acquire(ctx, "deploy")
		return err == nil
	}) {
		t.Errorf("when all is over, the name does not come free: %v", err)
	}
}

// TestClusterChaosIsSeen shows that TestClusterChaos can fail.
func TestClusterChaosIsSeen(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	for _, r := range c.masters {
		c.must(r, "acl", "setuser", "blind", "on", ">s3cret", "~*", "&*", "+@all", "-info")
	}
	opts := chaosOptions()
	opts.AllowUnguarded, opts.Username, opts.Password = true, "blind", "s3cret"
	if w := runClusterChaos(t, c, opts, seen, 3); w.wrong == nil {
		t.Errorf("nothing wrong was seen in %d leases", w.n)
	}
}

// runClusterChaos goes on for d or until something wrong was seen. It does the first
// kinds of harm.
func runClusterChaos(t *testing.T, c *testCluster, opts *Options, d time.Duration, kinds int) *witness {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	w := &witness{stop: cancel}
	var links []*clusterLinks
	var work sync.WaitGroup
	for range 4 {
		d := openClusterThrough(t, c.url(), opts)
		links = append(links, d.links)
		locks, err := pawl.New(d, &opts.Options)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		for range 2 {
			work.Go(func() { w.takeTurns(ctx, locks) })
		}
	}
	clusterChaos(ctx, c, links, kinds)
	for _, l := range links {
		l.set(drivertest.Healthy)
	}
	work.Wait()
	return w
}

// clusterChaos does harm until ctx ends, and leaves all nodes running.
func clusterChaos(ctx context.Context, c *testCluster, links []*clusterLinks, kinds int) {
	const name = "deploy"
	owner := len(c.masters) - 1 // of its slot, 15335
	pause := func(d time.Duration) {
		select {
		case <-time.After(rand.N(d)):
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		at, next := c.masters[owner], (owner+1+rand.IntN(2))%len(c.masters)
		switch rand.IntN(kinds) {
		case 0:
			at.do("flushall")
		case 1, 2:
			c.usurp(name, next)
			owner = next
		case 3, 4:
			link := links[rand.IntN(len(links))]
			link.set(drivertest.BlackHole)
			pause(600 * time.Millisecond)
			link.set(drivertest.Healthy)
		case 5:
			at.do("client", "kill", "type", "pubsub")
		case 6, 7, 8, 9:
			c.move(name, at, c.masters[next], func() { pause(100 * time.Millisecond) })
			owner = next
		case 10:
			at.stop()
			pause(500 * time.Millisecond)
			at.cont()
		case 11:
			at.restart()
			c.awaitOK()
		}
		pause(1200 * time.Millisecond)
	}
}
