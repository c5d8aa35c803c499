// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// renewed marks the request of a caller that renews soon.
func renewed(req *driver.Request) *driver.Request {
	req.Renewed = true
	return req
}

const freeFor = 3 * time.Second // see lookEvery

// TestPausedWaiters: sixty waiters are cut off, and two others are behind them. One of these gets
// the lock after a claim that nobody takes and a look of its own, not after sixty claims, which take a minute. The next
// hand-off is not to one that is cut off. These get the lock in their order when they are back.
func TestPausedWaiters(t *testing.T) {
	t.Parallel()
	const paused, each = 60, 3
	for _, kind := range []string{exclusive, "1"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := blessedServer(t)
			a, b, c := openLong(t, r), openLong(t, r), openLong(t, r)
			req := func() *driver.Request {
				req := long("deploy")
				req.Slots = slotsOf(kind)
				return req
			}
			g := take(t, a, req())
			links, cut := make([]*linked, paused/each), make([]*waiting, paused)
			for i := range links {
				links[i] = openThrough(t, drivertest.NewLink(t, r.Addr), longOptions())
				for j := range each {
					cut[each*i+j] = wait(t, r, links[i].party, req())
				}
			}
			next, last := wait(t, r, b, req()), wait(t, r, c, req())
			for _, s := range links {
				s.link.Set(drivertest.BlackHole)
			}
			began := driver.Now()
			release(t, g)
			select {
			case <-next.done:
			case <-last.done:
				next, last = last, next
			case <-time.After(freeFor + patience):
				t.Fatalf("nobody gets the lock behind %d waiters that are paused", paused)
			}
			g = next.granted(patience)
			t.Logf("the lock was free for %v", next.at.Sub(began))
			if !eventually(patience, func() bool { return queueLen(r, "deploy") == 1 }) {
				t.Fatalf("%d are in the queue; want the one that is not paused", queueLen(r, "deploy"))
			}
			release(t, g)
			g = last.granted(time.Minute)

			late := wait(t, r, b, req())
			sessions := make([]conn.Session, len(links))
			for i, s := range links {
				sessions[i], _ = s.server.Session("")
				s.link.Set(drivertest.Resets)
				s.link.Set(drivertest.Healthy)
			}
			for i, s := range links { // a waiter that has no subscription is passed over, and comes back at its next look
				if !eventually(time.Minute, func() bool {
					now, _ := s.server.Session("")
					return now != conn.Session{} && now != sessions[i]
				}) {
					t.Fatalf("client %d of those that were paused has no new subscription", i)
				}
			}
			if !eventually(time.Minute, func() bool { return queueLen(r, "deploy") == paused+1 }) {
				t.Fatalf("%d are in the queue; want all that were paused, and one that came after them", queueLen(r, "deploy"))
			}
			for i := range cut {
				release(t, g)
				g = cut[i].granted(time.Minute)
			}
			release(t, g)
			release(t, late.granted(time.Minute))
		})
	}
}

// TestTakenClaim: after the first renewal of a lease that a message has handed over, and after
// a look of a waiter that did not trust the message, nothing says that the claim was missed: else the next
// waiter to look would come before the others when the holder has died.
func TestTakenClaim(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	missed := lockKey(defaultPrefix, "deploy") + queueSuffix + ":claim"
	for _, req := range []*driver.Request{renewed(long("deploy")), long("deploy")} {
		g := take(t, a, long("deploy"))
		w := wait(t, r, b, req)
		release(t, g)
		g = w.granted(patience)
		must(t, errorOf(g.Renew(t.Context(), req.TTL)))
		if r.do("exists", missed) != "0" {
			t.Errorf("renewed: %v: the claim counts as missed although a waiter has taken it", req.Renewed)
		}
		release(t, g)
	}
}

// TestReleasedClaim: after the release of a lease that a message has handed over, nothing says that the claim was
// missed, also if the queue was not empty.
func TestReleasedClaim(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	queue := lockKey(defaultPrefix, "deploy") + queueSuffix
	g := take(t, a, long("deploy"))
	w := wait(t, r, b, renewed(long("deploy")))
	release(t, g)
	g = w.granted(patience)
	if r.do("exists", queue+":claim") != "1" {
		t.Fatal("nothing says that the claim is to be taken")
	}
	r.do("zadd", queue, "1", "lease client exclusive {}") // its client is gone
	release(t, g)
	if r.do("exists", queue+":claim") != "0" {
		t.Error("the claim counts as missed although a waiter has taken and released the lease")
	}
}
