// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
)

// reading and slot make requests of other kinds.
func reading(req *driver.Request) *driver.Request { req.Shared = true; return req }

func slot(req *driver.Request, n int) *driver.Request { req.Slots = n; return req }

// refusedBy checks that d cannot get req because the name has this many holders.
func refusedBy(t *testing.T, d tries, req *driver.Request, holders int) {
	t.Helper()
	_, err := d.TryAcquire(t.Context(), req)
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Info == nil || len(held.Info.Holders) != holders {
		t.Errorf("TryAcquire = %v; want a *HeldError that shows %d", err, holders)
	}
}

// TestTogether: what others of all kinds see of a lock that readers hold: SET NX, and
// clients with Efficiency.
func TestTogether(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b, p := openLong(t, r), openLong(t, r), open(t, r.url(), efficiently())
	key := lockKey(defaultPrefix, "deploy")
	first, second := take(t, a, reading(long("deploy"))), take(t, b, reading(long("deploy")))
	if out := r.do("set", key, "8f14e45f", "nx", "px", "3000"); out != "" {
		t.Errorf("SET NX = %q; want nothing: readers have it", out)
	}
	refusedBy(t, p, long("deploy"), 2)
	refusedBy(t, b, long("deploy"), 2)
	refusedBy(t, b, slot(long("deploy"), 2), 2)
	fails(t, "Break of none of them, with Efficiency,", p.Break(t.Context(), "deploy", "no such lease", nil, ""), driver.ErrHeld)
	succeeds(t, "Break with Efficiency", p.Break(t.Context(), "deploy", second.ID(), &driver.Holder{Who: "ops"}, "enough"))
	_, err := second.Renew(t.Context(), time.Minute)
	var lost *driver.LostError
	if !errors.As(err, &lost) || lost.Reason != driver.Broken || lost.Why != "enough" {
		t.Errorf("Renew of a broken reader = %v; want who broke it", err)
	}
	release(t, first)
	if n := r.do("exists", key); n != "0" {
		t.Error("the key is there although nobody holds the lock")
	}
	g := take(t, p, long("deploy"))
	refusedBy(t, a, reading(long("deploy")), 1)
	release(t, g)
	release(t, take(t, a, slot(long("deploy"), 2)))
}

// TestKeyEndsWithTheLast: the key of several leases is there until the last of them
// ends, and no longer: SET NX of another library waits for that.
func TestKeyEndsWithTheLast(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	key := lockKey(defaultPrefix, "deploy")
	brief := reading(lasting("deploy", 2*time.Second))
	g := take(t, s, reading(long("deploy")))
	take(t, s, brief)
	began := driver.Now()
	release(t, g)
	await(t, "the key is there long after the last lease has ended", func() bool { return r.do("exists", key) == "0" })
	if d := driver.Now().Sub(began); d > 20*time.Second {
		t.Errorf("the key was there for %v", d)
	}
	// Efficiency breaks the one that would have lasted longer.
	g = take(t, s, reading(long("deploy")))
	brief = reading(lasting("deploy", 2*time.Second))
	take(t, s, brief)
	must(t, open(t, r.url(), efficiently()).Break(t.Context(), "deploy", g.ID(), nil, "test"))
	await(t, "the key is there long after the last lease has ended", func() bool { return r.do("exists", key) == "0" })
	// And no shorter: the longer of two that are there goes on.
	brief = reading(lasting("deploy", time.Second))
	g = take(t, s, reading(long("deploy")))
	release(t, take(t, s, brief))
	take(t, s, reading(request("deploy")))
	time.Sleep(testMaxTTL + time.Second)
	renews(t, g)
	refusedBy(t, s, long("deploy"), 1)
}

// TestLostReplyOfAReader: the answer to a request for a shared lease is lost. Asked
// again it is the same lease, with the same token, and one release ends it; given up,
// nothing is left.
func TestLostReplyOfAReader(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, link := openLong(t, r), drivertest.NewLink(t, r.Addr)
	b := openThrough(t, link, longOptions())
	other := take(t, a, reading(long("deploy")))
	req := reading(long("deploy"))
	first, err := b.store.Ask(t.Context(), req)
	if err != nil || !first.Granted {
		t.Fatalf("Ask = %v, %v; want a grant", first, err)
	}
	again, err := b.store.Ask(t.Context(), req)
	if err != nil || !again.Granted || first.Token != again.Token {
		t.Errorf("asked again: %v, %v; want the token %d", again, err, first.Token)
	}
	refusedBy(t, a, long("deploy"), 2)
	if found, err := b.store.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease, Shared: true}, driver.End{}); !found || err != nil {
		t.Errorf("End = %v, %v; want true", found, err)
	}
	refusedBy(t, a, long("deploy"), 1)

	link.Set(drivertest.BlackHole) // the request is executed when the link is there again
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.TryAcquire(ctx, reading(long("deploy"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("TryAcquire over a cut link = %v; want the context's error", err)
	}
	link.Set(drivertest.Healthy)
	release(t, other)
	await(t, "what was given up holds the name", func() bool { _, err := a.TryAcquire(t.Context(), long("deploy")); return err == nil })
}

// TestForgottenReaders: the server forgets three readers. No writer gets in before they
// have ended, whether it came before or after, and no reader either, as a writer may
// have been forgotten too.
func TestForgottenReaders(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"kill -9 and restart empty", "FLUSHALL"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := startServer(t)
			bless(t, r.url(), testOptions())
			a, b := open(t, r.url(), testOptions()), open(t, r.url(), testOptions())
			var last *participant.Lease
			for range 3 {
				last = take(t, a, reading(request("deploy")))
			}
			w := wait(t, r, b, request("deploy"))
			forgets[what](r)
			deadline := last.Since().Add(testMaxTTL - driver.Drift(testMaxTTL))
			if g, err := b.TryAcquire(t.Context(), reading(request("deploy"))); err == nil {
				if d := deadline.Sub(driver.Now()); d > 0 {
					t.Errorf("a reader got the name %v before the deadline of those who are forgotten", d)
				}
				release(t, g)
			}
			g := w.granted(patience)
			if d := deadline.Sub(w.at); d > 0 {
				t.Errorf("the writer got the name %v before the deadline of a reader", d)
			}
			fails(t, "Renew of a forgotten reader", errorOf(last.Renew(t.Context(), testMaxTTL)), driver.ErrLost)
			release(t, g)
		})
	}
}

// TestRenewalBesideASuccessor: another program has deleted the key of a reader without
// a message, and a writer has the name now. The reader's renewal finds the writer, and
// returns that the lease is lost.
func TestRenewalBesideASuccessor(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	reader := take(t, a, reading(long("deploy")))
	r.do("del", lockKey(defaultPrefix, "deploy"))
	writer := take(t, b, long("deploy"))
	fails(t, "Renew beside a successor", errorOf(reader.Renew(t.Context(), testMaxTTL)), driver.ErrLost)
	release(t, writer)
}

// TestReadersWithoutMemory: a server that has no memory left takes shared leases back, lets the next
// in, and grants a shared lease in place of an exclusive one.
func TestReadersWithoutMemory(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	g := take(t, a, reading(long("deploy")))
	w := wait(t, r, b, long("deploy"))
	lower := take(t, a, long("other"))
	reader := wait(t, r, b, reading(long("other")))
	r.do("config", "set", "maxmemory", "1")
	time.Sleep(100 * time.Millisecond) // so that the scripts look at the role of the server again
	release(t, g)
	release(t, w.granted(patience))
	var shared *participant.Lease
	await(t, "Downgrade does not succeed", func() bool {
		got, err := lower.Downgrade(t.Context(), reading(long("other")))
		shared = got
		return err == nil
	})
	release(t, shared)
	release(t, reader.granted(patience))
}
