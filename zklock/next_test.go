// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// renewed is a request for a lease that is renewed, as clients ask for it.
func renewed(name string, ttl time.Duration) *driver.Request {
	req := request(name, ttl)
	req.Renewed = true
	return req
}

// TestNextAsksNothing: the watch on the node before it tells a waiter that it is next, and
// what a quorum has confirmed lately of its session is enough to trust. So a hand-off is
// one request, the release.
func TestNextAsksNothing(t *testing.T) {
	t.Parallel()
	const ttl, turns = time.Minute, 50
	s := startServer(t)
	clients := []*client{openURL(t, s.url(), ttl), openURL(t, s.url(), ttl)}
	g := take(t, clients[0], renewed("deploy", ttl))
	asked, began := 0, driver.Now()
	counting := s.count(t, "zk_packets_received")
	counting = s.count(t, "zk_packets_received") - counting // the question is counted, too
	for i := range turns {
		next := clients[(i+1)%2]
		w := wait(t, next, renewed("deploy", ttl))
		l, err := readLine(childrenOf(t, next, "deploy"), 0)
		if err != nil || len(l) != 2 {
			t.Fatalf("the queue is %v, %v", l, err)
		}
		watched(t, next, "deploy", l)
		before := s.count(t, "zk_packets_received")
		release(t, g)
		g = w.granted(t)
		asked += s.count(t, "zk_packets_received") - before - counting
	}
	release(t, g)
	// Package zk and keep ask something every few seconds. A list would be one more for each.
	most := turns + turns/4 + int(driver.Now().Sub(began)/(3*time.Second))
	t.Logf("%d requests in %d hand-offs", asked, turns)
	if asked > most {
		t.Errorf("%d hand-offs took %d requests; want %d at most", turns, asked, most)
	}
}

// TestOneRoundTrip: who is before a node is asked for behind the request that makes it, and not after the answer. On a slow machine
// that shows on a slower link.
func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	const name = "one-round-trip"
	for trip := time.Second; ; trip *= 2 {
		link := drivertest.NewLink(t, sharedServer(t).Addr)
		link.Slow(trip / 2)
		d := openURL(t, "zk://"+link.Addr()+"?connect_timeout=1m", time.Minute)
		release(t, take(t, d, renewed(name, time.Minute))) // the node of the name is there now
		began := driver.Now()
		g := take(t, d, renewed(name, time.Minute))
		took := driver.Now().Sub(began)
		release(t, g)
		if took < 2*trip {
			return
		}
		if trip > 2*time.Second {
			t.Fatalf("with a round trip of %v a lease takes %v", trip, took)
		}
	}
}

// TestRequests: a lease of a free name costs four requests: making a node, listing, watching and deleting it.
// Its watch is one answer more. A lease that is released at once needs no watch.
func TestRequests(t *testing.T) {
	t.Parallel()
	const leases = 200
	s := startServer(t)
	d := openURL(t, s.url(), time.Minute)
	release(t, take(t, d, request("deploy", time.Minute)))
	began, received, sent := driver.Now(), s.count(t, "zk_packets_received"), s.count(t, "zk_packets_sent")
	for range leases {
		release(t, take(t, d, request("deploy", time.Minute)))
	}
	received, sent = s.count(t, "zk_packets_received")-received, s.count(t, "zk_packets_sent")-sent
	more := leases/4 + 10*int(driver.Now().Sub(began)/time.Second+1) // package zk and keep ask something now and then
	t.Logf("%d leases: %v requests, %v answers", leases, received, sent)
	if received > 4*leases+more || sent > 5*leases+more {
		t.Errorf("%d leases cost %v requests and %v answers; want %d and %d at most", leases, received, sent, 4*leases+more, 5*leases+more)
	}
}

// watched returns when a client watches all nodes of a queue.
func watched(t *testing.T, s *client, name string, l line) {
	t.Helper()
	one := firstSession(s)
	drivertest.Until(t, "the waiter does not watch its own node and the one before it", func() bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		return !slices.ContainsFunc(l, func(c child) bool { return one.watches[s.wire.dir(name)+"/"+c.name] == nil })
	})
}

// behind lets a hold a name and b wait for it, and returns when b watches both nodes.
func behind(t *testing.T, a, b *client, name string, ttl time.Duration) (g *lease, w *waiting, l line) {
	t.Helper()
	g = take(t, a, renewed(name, ttl))
	w = wait(t, b, renewed(name, ttl))
	l, err := readLine(childrenOf(t, a, name), 0)
	if err != nil || len(l) != 2 {
		t.Fatalf("the queue is %v, %v", l, err)
	}
	watched(t, b, name, l)
	return g, w, l
}

// TestNextIsThere: somebody deletes the node of a waiter right before that of the holder, or
// right after it. A waiter that takes itself for the next one holds a name that is free. In the
// second case it was the next one, and is told that its lease is gone.
func TestNextIsThere(t *testing.T) {
	t.Parallel()
	const ttl, name = 20 * time.Second, "next-is-there"
	s := sharedServer(t)
	a, b := openURL(t, s.url(), ttl), openURL(t, s.url(), ttl)
	for i := range 80 {
		g, w, l := behind(t, a, b, name, ttl)
		own, before := a.wire.dir(name)+"/"+l[1].name, a.wire.dir(name)+"/"+l[0].name
		nodes := []any{&zk.DeleteRequest{Path: own, Version: -1}, &zk.DeleteRequest{Path: before, Version: -1}}
		if i%2 == 1 {
			nodes[0], nodes[1] = nodes[1], nodes[0]
		}
		if _, err := firstSession(a).conn.Multi(nodes...); err != nil {
			t.Fatal(err)
		}
		_ = g.Release(context.WithoutCancel(t.Context()))
		next := w.granted(t)
		now, err := readLine(childrenOf(t, a, name), 0)
		must(t, err)
		switch {
		case next.n != nil && len(now) == 1 && next.n.name == now[0].name:
			release(t, next)
		case i%2 == 0 || next.n != nil && next.n.name != l[1].name: // nil: the lease is lost already
			t.Fatalf("the waiter has the name with %+v; the queue is %v", next.n, now)
		default:
			hearsLoss(t, next)
		}
	}
}

// TestDeletedWaiterAsksOnce: somebody deletes the node of a waiter. It joins the queue again, and asks for
// that once.
func TestDeletedWaiterAsksOnce(t *testing.T) {
	t.Parallel()
	const ttl, name, asked = time.Minute, "deploy", 200
	s := startServer(t)
	a, b := openURL(t, s.url(), ttl), openURL(t, s.url(), ttl)
	g, w, l := behind(t, a, b, name, ttl)
	must(t, firstSession(a).conn.Delete(a.wire.dir(name)+"/"+l[1].name, -1))
	drivertest.Until(t, "the waiter does not join the queue again", func() bool {
		again, _ := readLine(childrenOf(t, a, name), 0)
		return len(again) == 2 && again[1].name != l[1].name
	})
	release(t, g)
	release(t, w.granted(t))
	// Whatever b asks besides goes the same way, in turn with this.
	before := s.count(t, "zk_packets_received")
	for range asked {
		if _, _, err := firstSession(b).conn.Exists("/"); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.count(t, "zk_packets_received") - before; n > asked+asked/4 {
		t.Errorf("%d requests arrived beside %d; want a few", n-asked, asked)
	}
}

// TestChangedIsNotGone: a holder writes into its node. The writer right behind it goes on
// waiting, and is not woken.
func TestChangedIsNotGone(t *testing.T) {
	t.Parallel()
	const ttl, name = 20 * time.Second, "changed-is-not-gone"
	s := sharedServer(t)
	a, b := openURL(t, s.url(), ttl), openURL(t, s.url(), ttl)
	g, w, l := behind(t, a, b, name, ttl)
	one := firstSession(b)
	watch := func() *watch {
		one.mu.Lock()
		defer one.mu.Unlock()
		return one.watches[b.wire.dir(name)+"/"+l[0].name]
	}
	before := watch()
	if _, err := g.n.s.conn.Set(g.n.path(), []byte("{}"), -1); err != nil {
		t.Fatal(err)
	}
	// A transaction over the connection of the watch is answered after what the watch tells.
	if _, err := one.touch(); err != nil {
		t.Fatal(err)
	}
	if !w.Waits() {
		t.Fatal("the writer has the name beside the holder")
	}
	if watch() != before {
		t.Error("the writer was woken although the holder has only written into its node")
	}
	release(t, g)
	release(t, w.granted(t))
}

// TestStanding: a waiter takes as proof of its session what a quorum has confirmed lately, if
// nothing speaks against it.
func TestStanding(t *testing.T) {
	const ttl = 30 * time.Second
	st := &store{tick: 2 * time.Second}
	now := driver.Now()
	ago := func(d time.Duration) driver.Instant { return now.Add(-d) }
	l := new(link)
	for _, c := range []struct {
		name    string
		touched time.Duration // ago; 0 for never
		counted time.Duration // ago
		set     *link
		fixed   bool          // the lease is not renewed
		since   time.Duration // ago; 0 for not trusted
	}{
		{name: "confirmed lately", touched: time.Second, counted: time.Second, set: l, since: time.Second},
		{name: "the leader may have counted for long", touched: time.Second, counted: 13 * time.Second, set: l, since: 3 * time.Second},
		{name: "the leader may have counted for too long", touched: time.Second, counted: 26 * time.Second, set: l},
		{name: "confirmed long ago", touched: 16 * time.Second, counted: 16 * time.Second, set: l},
		{name: "never confirmed", counted: time.Second, set: l},
		{name: "not renewed", touched: time.Second, counted: time.Second, set: l, fixed: true},
		{name: "watched over another connection", touched: time.Second, counted: time.Second, set: new(link)},
		{name: "not watched", touched: time.Second, counted: time.Second},
	} {
		s := &session{store: st, purpose: purpose{ttl, c.fixed}, timeout: 40 * time.Second, link: l, counted: ago(c.counted)}
		if c.touched > 0 {
			s.last = ago(c.touched)
		}
		n := &node{s: s, link: c.set}
		since, err := n.standing()
		switch {
		case c.since == 0 && err == nil:
			t.Errorf("%s: trusted since %v ago", c.name, now.Sub(since))
		case c.since > 0 && (err != nil || since != ago(c.since)):
			t.Errorf("%s: trusted since %v ago, %v; want %v", c.name, now.Sub(since), err, c.since)
		}
	}
}
