// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
)

const (
	faultCall = time.Second // bound of a call while the link is broken; one that is slow has its time
	// faultSlack is what a call may take beyond its bound: no more than the
	// five seconds that Release takes whatever its context says.
	faultSlack = 7 * time.Second
)

// cell is one fault in one phase of a lease's life: a client behind the link that
// breaks, and two that are not.
type cell struct {
	*testing.T
	r       *redis
	link    *drivertest.Link
	fault   drivertest.Fault
	ttl     time.Duration
	a, b, c *pawl.Client // a is behind the link
	w       *witness
}

// TestFaults breaks a link in every way and in every phase. No call outlasts its
// bound, no two leases are trusted at a time, tokens grow, the others get the
// lock when they should, and when the link is well again all works and nothing
// is left in the server.
func TestFaults(t *testing.T) {
	t.Parallel()
	phases := map[string]func(*cell){
		"acquire": (*cell).acquire, "wait": (*cell).wait, "grant": (*cell).grant, "extend": (*cell).extend, "release": (*cell).release,
	}
	for _, f := range []drivertest.Fault{drivertest.BlackHole, drivertest.RequestsLost, drivertest.RepliesLost, drivertest.Delayed, drivertest.Resets} {
		for name, phase := range phases {
			t.Run(name+"/"+f.String(), func(t *testing.T) {
				t.Parallel()
				c := newCell(t, f)
				phase(c)
				c.finish()
			})
		}
	}
}

func newCell(t *testing.T, f drivertest.Fault) *cell {
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.Addr)
	c := &cell{T: t, r: r, link: link, fault: f, ttl: 6 * time.Second, w: &witness{stop: func() {}}}
	if f == drivertest.Delayed {
		c.ttl = 30 * time.Second // renewals must fit in, on a busy machine too
	}
	c.a, c.b, c.c = c.open("redis://"+link.Addr()), c.open(r.url()), c.open(r.url())
	return c
}

func (c *cell) open(url string) *pawl.Client {
	opts := longOptions()
	opts.TTL = c.ttl
	client, err := Open(context.Background(), url, opts)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { client.Close() })
	return client
}

// begin starts a call of Acquire, which is seen by the witness when it returns.
func (c *cell) begin(client *pawl.Client, opts ...pawl.Option) <-chan *pawl.Lease {
	got := make(chan *pawl.Lease, 1)
	go func() {
		defer close(got)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l, err := client.Acquire(ctx, "deploy", opts...)
		if err != nil {
			c.Errorf("Acquire = %v", err)
			return
		}
		c.w.saw(l)
		got <- l
	}()
	return got
}

// got returns the lease, which must come within d.
func (c *cell) got(turn <-chan *pawl.Lease, d time.Duration) *pawl.Lease {
	c.Helper()
	select {
	case l := <-turn:
		if l == nil {
			c.FailNow()
		}
		return l
	case <-time.After(d):
		c.Fatalf("Acquire still waits after %v", d)
		return nil
	}
}

// inLine waits until so many wait.
func (c *cell) inLine(n int) {
	c.Helper()
	if !eventually(patience, func() bool { return queueLen(c.r, "deploy") == n }) {
		c.Fatalf("%d do not come to wait", n)
	}
}

// bounded calls f with a context that ends after faultCall.
func (c *cell) bounded(what string, f func(context.Context) error) error {
	c.Helper()
	limit := faultCall
	if c.fault == drivertest.Delayed {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit + faultSlack):
		c.Fatalf("%s still hangs %v after its context has ended", what, faultSlack)
		return nil
	}
}

// give releases a lease that has not been lost.
func (c *cell) give(l *pawl.Lease) {
	c.Helper()
	if err := l.Release(context.Background()); err != nil {
		c.Errorf("Release = %v", err)
	}
}

// acquire: what the server has granted without our knowing is undone.
func (c *cell) acquire() {
	c.link.Set(c.fault)
	for _, op := range []func(context.Context, string, ...pawl.Option) (*pawl.Lease, error){c.a.TryAcquire, c.a.Acquire} {
		var l *pawl.Lease
		err := c.bounded("Acquire", func(ctx context.Context) (err error) {
			l, err = op(ctx, "deploy", pawl.TTL(time.Minute))
			return err
		})
		switch {
		case err == nil && c.fault != drivertest.Delayed:
			c.Fatal("the link is not broken")
		case err == nil:
			c.w.saw(l)
			c.give(l)
		case c.fault == drivertest.Delayed:
			c.Errorf("on a slow link Acquire = %v", err)
		case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrUnavailable) && !errors.Is(err, pawl.ErrUncertain):
			c.Errorf("Acquire = %v; want an error of the context or the store", err)
		}
	}
	c.link.Set(drivertest.Healthy)
	c.give(c.got(c.begin(c.b), patience))
}

// wait: a waiter that is cut off costs the next one no more than the claim, and
// gets its turn when it can be reached again.
func (c *cell) wait() { c.handOff(func() { c.link.Set(c.fault) }) }

// grant: the same if the link breaks right behind the message of the grant.
func (c *cell) grant() { c.handOff(func() { c.link.SetAfter("grant ", c.fault) }) }

func (c *cell) handOff(breakLink func()) {
	held := c.got(c.begin(c.b), patience)
	cutOff := c.begin(c.a)
	c.inLine(1)
	next := c.begin(c.c)
	c.inLine(2)
	breakLink()
	c.give(held)
	if c.fault == drivertest.Delayed { // slow, but there
		c.give(c.got(cutOff, patience))
		c.give(c.got(next, patience))
		return
	}
	c.give(c.got(next, patience))
	if c.link.Fault() != c.fault {
		c.Error("the link did not break when the lock was handed over")
	}
	c.link.Set(drivertest.Healthy)
	l := c.got(cutOff, patience)
	if err := l.Release(context.Background()); err != nil && !errors.Is(err, pawl.ErrLost) { // it may have had the claim, and no more
		c.Errorf("Release = %v", err)
	}
}

// extend: the lease ends at its deadline unless it could be renewed, and the
// next one has the lock one TTL later at the latest.
func (c *cell) extend() {
	held := c.got(c.begin(c.a), patience)
	next := c.begin(c.b)
	c.inLine(1)
	c.link.Set(c.fault)
	err := c.bounded("Extend", func(ctx context.Context) error { return held.Extend(ctx, c.ttl) })
	if c.fault == drivertest.Delayed {
		if err != nil {
			c.Errorf("on a slow link Extend = %v", err)
		}
		first := held.Deadline()
		if !eventually(2*patience, func() bool { return held.Err() != nil || held.Deadline().After(first) }) || held.Err() != nil {
			c.Errorf("on a slow link the lease is not renewed: %v", held.Err())
		}
		c.give(held)
	} else {
		select {
		case <-held.Done():
		case <-time.After(time.Until(held.Deadline()) + patience):
			c.Fatal("the lease outlives its deadline")
		}
		if err := held.Err(); !errors.Is(err, pawl.ErrLost) {
			c.Errorf("the lease has ended with %v; want ErrLost", err)
		}
	}
	c.give(c.got(next, c.ttl+patience))
	_ = held.Release(context.Background()) // what the store has of a lost one
}

// release: the lock comes free when the link is well again, long before the TTL.
func (c *cell) release() {
	held := c.got(c.begin(c.a, pawl.TTL(time.Minute)), patience)
	next := c.begin(c.b)
	c.inLine(1)
	c.link.Set(c.fault)
	err := c.bounded("Release", held.Release)
	if err != nil && (c.fault == drivertest.Delayed || errors.Is(err, pawl.ErrLost)) {
		c.Errorf("Release = %v", err)
	}
	c.link.Set(drivertest.Healthy)
	c.give(c.got(next, patience))
}

// finish checks that all is well.
func (c *cell) finish() {
	c.Helper()
	c.link.Set(drivertest.Healthy)
	for _, client := range []*pawl.Client{c.a, c.b} {
		c.give(c.got(c.begin(client), patience))
	}
	for _, wrong := range c.w.wrong {
		c.Error(wrong)
	}
	key := lockKey(defaultPrefix, "deploy")
	if !eventually(patience, func() bool { return c.r.do("exists", key, key+queueSuffix) == "0" }) {
		c.Errorf("left in the server:\n%s\nwant no lock and no queue", c.r.do("keys", "*"))
	}
	for _, key := range strings.Fields(c.r.do("keys", "*")) {
		if c.r.do("pttl", key) == "-1" && !strings.HasSuffix(key, "epoch") && !strings.HasSuffix(key, "epoch:seal") {
			c.Errorf("%s never expires", key)
		}
	}
}
