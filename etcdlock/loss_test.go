// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestRevoked: a holder whose etcd lease was revoked hears of it at once, well
// before its next renewal.
func TestRevoked(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	s := openStore(t, m.url())
	for _, name := range []string{"before the listener", "after"} { // it starts with the first
		g := take(t, s, request(name))
		lost := make(chan error, 1)
		g.OnLost(func(err error) { lost <- err })
		m.ctl("lease", "revoke", fmt.Sprintf("%x", int64(g.backing.id)))
		if err := drivertest.Receive(t, lost, "nobody was told"); lostBy(err) == nil || lostBy(err).Reason != driver.Gone {
			t.Errorf("lost: %v", err)
		}
		if _, err := g.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew = %v; want ErrLost", err)
		}
		if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release = %v; want ErrLost", err)
		}
	}
}

// TestDeletedKey: a key that somebody deletes by hand is missed by the next renewal, and by the release.
func TestDeletedKey(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	s := openStore(t, m.url())
	g := take(t, s, request("deploy"))
	m.ctl("del", g.key)
	if _, err := g.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %v; want ErrLost", err)
	}
	g = take(t, s, request("deploy"))
	m.ctl("del", g.key)
	if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Release = %v; want ErrLost", err)
	}
}

// TestExpiryWhileWaiting: the waiter's connection is cut until its etcd lease has
// ended. It rejoins at the end of the queue, behind one that came later.
func TestExpiryWhileWaiting(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	link := drivertest.NewLink(t, m.Addr)
	a, b := openStore(t, "etcd://"+link.Addr()), openStore(t, m.url())
	held := take(t, b, request("deploy"))
	// A waiter bears an outage for a TTL from its first request that is not answered, and its key
	// goes a TTL after its last keepalive. In between, a third of a TTL at most, it comes back.
	req := requestFor("deploy", 9*time.Second)
	first := wait(t, a, req)
	second := wait(t, b, request("deploy"))
	link.Set(drivertest.BlackHole)
	drivertest.Until(t, "the key of the waiter that was cut off does not go", func() bool { return len(keysOf(t, b, req)) == 0 })
	link.Set(drivertest.Healthy)
	drivertest.Until(t, "the waiter does not come back", func() bool { return len(keysOf(t, b, req)) == 1 })
	release(t, held)
	g := second.granted(patience)
	if !first.Waits() {
		t.Error("the waiter that had lost its place has overtaken")
	}
	release(t, g)
	release(t, first.granted(patience))
	nothingLeft(t, b)
}

// TestCompaction: what the waiter and the holder watch from has been compacted
// while they were cut off. They look again, and tokens go on.
func TestCompaction(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	link := drivertest.NewLink(t, m.Addr)
	a, b := openStore(t, "etcd://"+link.Addr()), openStore(t, m.url())
	held := take(t, b, request("deploy"))
	mine := take(t, a, request("other"))
	lost := make(chan error, 1)
	mine.OnLost(func(err error) { lost <- err })
	w := wait(t, a, request("deploy"))
	link.Set(drivertest.BlackHole)
	release(t, held)
	m.ctl("del", mine.key)
	m.ctl("del", mine.backing.mark)
	for i := range 50 {
		m.ctl("put", "x", fmt.Sprint(i))
	}
	resp, err := b.client.Get(t.Context(), "x")
	must(t, err)
	if _, err := b.client.Compact(t.Context(), resp.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	link.Set(drivertest.Healthy)
	g := w.granted(patience)
	if g.Token() <= held.Token() {
		t.Errorf("token %d after %d", g.Token(), held.Token())
	}
	drivertest.Receive(t, lost, "the holder was not told of its loss")
	release(t, g)
}

// TestAcquiredTime: when a waiter got the name is known after its first renewal.
func TestAcquiredTime(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	held := take(t, a, request("deploy"))
	w := wait(t, b, request("deploy"))
	before := time.Now().Truncate(time.Microsecond)
	release(t, held)
	g := w.granted(patience)
	after := time.Now()
	if _, err := g.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew = %v", err)
	}
	var info *driver.Info
	if !eventually(patience, func() (known bool) {
		info, _ = a.Inspect(t.Context(), "deploy")
		return info != nil && len(info.Holders) == 1 && !info.Holders[0].Acquired.Before(before)
	}) || info.Holders[0].Acquired.After(after) || info.Holders[0].Expires.IsZero() {
		t.Errorf("Inspect = %+v; want it held since a time from %v to %v", info, before, after)
	}
	release(t, g)
}

// releasing is a client's Watcher that lets something happen just before a watch is
// made.
type releasing struct {
	clientv3.Watcher
	before func()
}

func (r *releasing) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	r.before()
	return r.Watcher.Watch(ctx, key, opts...)
}

// TestReleaseBeforeTheWatch: what a waiter watches goes after it has looked, and
// before the watch is there. It must not sleep until its next keepalive.
func TestReleaseBeforeTheWatch(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	for kind, of := range map[string]func(*driver.Request){
		"exclusive": func(*driver.Request) {},
		"shared":    func(r *driver.Request) { r.Shared = true },
		"slots":     func(r *driver.Request) { r.Slots = 1 },
	} {
		a, b := openStore(t, m.url()), openStore(t, m.url())
		req, held := requestFor(kind, 5*time.Minute), request(kind)
		of(req)
		if kind == "slots" {
			of(held)
		}
		g := take(t, b, held)
		var once sync.Once
		a.client.Watcher = &releasing{a.client.Watcher, func() { once.Do(func() { release(t, g) }) }}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		next, err := a.Acquire(ctx, req)
		cancel()
		if err != nil {
			t.Fatalf("%s: Acquire = %v", kind, err)
		}
		release(t, next)
	}
}

// TestForeignKeysHideNobody: keys that are not ours are among those of a name. They
// hold nothing, and they do not hide who does.
func TestForeignKeysHideNobody(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	s := openStore(t, m.url())
	foreign := func(from int) {
		for i := range maxShown + 1 {
			if _, err := s.client.Put(t.Context(), fmt.Sprintf("pawl/lock/deploy/x/foreign/%d", from+i), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	g := take(t, s, request("deploy"))
	foreign(0)
	w := wait(t, s, request("deploy"))
	time.Sleep(200 * time.Millisecond)
	if !w.Waits() {
		t.Error("a waiter has got past the holder")
	}
	release(t, g)
	release(t, w.granted(patience))
	foreign(100)
	got, err := s.Acquire(t.Context(), request("deploy"))
	if err != nil {
		t.Fatalf("Acquire = %v", err)
	}
	for _, req := range []*driver.Request{{}, {Shared: true}, {Slots: 2}} {
		again := request("deploy")
		again.Shared, again.Slots = req.Shared, req.Slots
		if _, err := s.TryAcquire(t.Context(), again); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("TryAcquire = %v; want ErrHeld", err)
		}
	}
	release(t, got)
}

// TestDeadConnection: a connection that loses everything and never ends, as behind
// a firewall that has forgotten it, is given up early enough to renew on another.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	link := drivertest.NewLink(t, m.Addr)
	const ttl = 9 * time.Second
	c := openClient(t, "etcd://"+link.Addr(), ttl)
	l, err := c.Acquire(t.Context(), "deploy")
	must(t, err)
	link.Set(drivertest.Forgotten)
	select {
	case <-l.Done():
		t.Errorf("the lease is lost: %v", l.Err())
	case <-time.After(ttl * 3 / 2):
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}
