// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// openMoving returns a client of what is behind a link, with all that it logs.
func openMoving(t *testing.T, link *drivertest.Link, ttl time.Duration) (*pawl.Client, *servers.Output) {
	t.Helper()
	log := new(servers.Output)
	opts := optionsOf(ttl)
	opts.Logger = slog.New(slog.NewTextHandler(log, nil))
	return openClient(t, "redis://"+link.Addr(), opts), log
}

// replicated starts a server with a replica, and blesses it for a MaxTTL.
func replicated(t *testing.T, ttl time.Duration) (master, replica *redis) {
	t.Helper()
	args := []string{"--repl-diskless-sync-delay", "0"}
	master, replica = startServer(t, args...), startServer(t, args...)
	opts := optionsOf(ttl)
	bless(t, master.url(), opts)
	follow(t, replica, master)
	return master, replica
}

// TestAddressMoves: an address is given to a replica that was promoted. The connections
// to the former master, which is its replica now, live on. A lease goes on. A waiter
// gets the lock and requests are granted as soon as the new master grants anything. Few
// connections are made.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // a busy machine takes seconds to get a replica going
	before, after := replicated(t, ttl)
	link := drivertest.NewLink(t, before.Addr)
	a, log := openMoving(t, link, ttl)
	b, _ := openMoving(t, link, ttl)
	held := acquire(t, a, "deploy")
	next := make(chan error, 1)
	go func() {
		l, err := b.Acquire(t.Context(), "deploy")
		if err == nil {
			err = l.Release(t.Context())
		}
		next <- err
	}()
	// A replica that is up may get nothing for a second, until the master has heard of it.
	await(t, "nobody waits, or the replica does not know", func() bool { return queueLen(after, "deploy") == 1 })
	made := link.Made()
	promoted := driver.Now()
	after.do("replicaof", "no", "one")
	link.Move(after.Addr)
	follow(t, before, after)
	moved := driver.Now()
	// What the former master renewed after the promotion the new one does not know.
	renewed := moved.Sub(promoted) < ttl/6
	var l *pawl.Lease
	var err error
	if !eventually(2*ttl+patience, func() bool { l, err = a.TryAcquire(t.Context(), "another"); return err == nil }) {
		t.Fatalf("TryAcquire = %v", err)
	}
	took := driver.Now().Sub(moved)
	t.Logf("granted after %v, of which the server was closed for %v, or more if the other client came late", took, ttl)
	if took > 2*ttl+patience/2 {
		t.Errorf("granted after %v", took)
	}
	release(t, l)
	if err := held.Err(); err != nil && renewed {
		t.Errorf("the lease that the new master knows has ended: %v", err)
	}
	if err := held.Release(t.Context()); err != nil && renewed {
		t.Errorf("Release = %v", err)
	}
	if err := within(t, "the waiter stands beside a free lock", next); err != nil {
		t.Errorf("the waiter: %v", err)
	}
	if n := link.Made() - made; n > 20 { // by two clients, in some seconds
		t.Errorf("%d connections were made", n)
	}
	if n := strings.Count(log.String(), "restarted"); n != 1 {
		t.Errorf("that the server is closed was logged %d times:\n%s", n, log)
	}
}

// TestAddressOfReplica: an address goes on leading to a master that has become a
// replica, and in the end to the new master. Until then few connections are made, even
// for many requests. The errors say that it is a replica, and do not come at once.
func TestAddressOfReplica(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	before, after := replicated(t, ttl)
	link := drivertest.NewLink(t, before.Addr)
	a, log := openMoving(t, link, ttl)
	after.do("replicaof", "no", "one")
	follow(t, before, after)
	made, asked := link.Made(), 0
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); asked++ {
		l, err := a.TryAcquire(t.Context(), "deploy")
		if err == nil {
			t.Fatalf("a replica grants a lease: %v", l)
		}
		if asked > 10 && !strings.Contains(err.Error(), "replica") {
			t.Fatalf("TryAcquire = %v; want that the server is a replica", err)
		}
	}
	if asked > 200 {
		t.Errorf("%d errors in 4 s", asked)
	}
	if n := link.Made() - made; n > 10 || n == 0 {
		t.Errorf("%d connections were made for %d requests; want some", n, asked)
	}
	link.Move(after.Addr)
	var l *pawl.Lease
	var err error
	if !eventually(3*patience, func() bool { l, err = a.TryAcquire(t.Context(), "deploy"); return err == nil }) {
		t.Fatalf("TryAcquire = %v", err)
	}
	release(t, l)
	if n := link.Made() - made; n > 20 {
		t.Errorf("%d connections were made", n)
	}
	if n := strings.Count(log.String(), "level=WARN"); n > 2 {
		t.Errorf("%d warnings:\n%s", n, log)
	}
}

// TestEfficiencyAddressMoves: the same without scripts that are bound to a run.
func TestEfficiencyAddressMoves(t *testing.T) {
	t.Parallel()
	before, after := replicated(t, time.Second)
	link := drivertest.NewLink(t, before.Addr)
	locks := openClient(t, "redis://"+link.Addr()+"?mode=efficiency", nil)
	after.do("replicaof", "no", "one")
	link.Move(after.Addr)
	follow(t, before, after)
	var err error
	if !eventually(patience, func() bool { _, err = locks.TryAcquire(t.Context(), "deploy"); return err == nil }) {
		t.Errorf("TryAcquire = %v", err)
	}
}

// TestOtherServerHasIt: an address is given to a server that was up all along, where
// somebody else has the lock. The holder at the former server learns of its loss when
// it is connected again, and not only when it renews.
func TestOtherServerHasIt(t *testing.T) {
	t.Parallel()
	first, second := startServer(t), startServer(t)
	link := drivertest.NewLink(t, first.Addr)
	opts := testOptions()
	opts.TTL, opts.MaxTTL = 3*time.Minute, 3*time.Minute
	for _, r := range []*redis{first, second} {
		bless(t, r.url(), opts)
	}
	a := openClient(t, "redis://"+link.Addr(), opts)
	b := open(t, second.url(), opts)
	var held []*pawl.Lease
	for _, opt := range [][]pawl.Option{nil, {pawl.NoRenew()}, {pawl.Shared()}} {
		name := "deploy" + string(rune('0'+len(held)))
		l := acquire(t, a, name, opt...)
		held = append(held, l)
		take(t, b, long(name))
	}
	link.Redirect(second.Addr)
	for i, l := range held {
		within(t, l.Name()+" is believed although another server is there, and somebody else has it", l.Done())
		if !errors.Is(l.Err(), pawl.ErrLost) {
			t.Errorf("lease %d: %v", i, l.Err())
		}
	}
}
