// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawl-go/pawl"
)

// TestNew: a client of the caller's is used, and stays open.
func TestNew(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Addr}, Logger: zap.NewNop()})
	must(t, err)
	defer client.Close()
	locks, err := New(client, nil)
	must(t, err)
	other := openClient(t, m.url(), time.Minute)
	l, err := locks.Acquire(t.Context(), "deploy")
	must(t, err)
	if _, err := other.TryAcquire(t.Context(), "deploy"); !errors.Is(err, pawl.ErrHeld) {
		t.Errorf("TryAcquire = %v; want ErrHeld", err)
	}
	if err := locks.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := l.Err(); !errors.Is(err, pawl.ErrReleased) {
		t.Errorf("Err after Close = %v; want ErrReleased", err)
	}
	if _, err := client.Get(t.Context(), "x"); err != nil {
		t.Errorf("the caller's client after Close: %v", err)
	}
	if _, err := other.TryAcquire(t.Context(), "deploy"); err != nil {
		t.Errorf("TryAcquire = %v", err)
	}
}

// TestCloseLeavesNoLease: what a client keeps for its next attempt is given back.
func TestCloseLeavesNoLease(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	for _, ttl := range []time.Duration{time.Minute, time.Hour} {
		g := take(t, a, requestFor("deploy", ttl))
		other := take(t, a, requestFor("other", ttl))
		release(t, g)
		release(t, other)
	}
	leases := func() int {
		resp, err := b.client.Leases(t.Context())
		must(t, err)
		return len(resp.Leases)
	}
	if leases() == 0 {
		t.Error("there are no spares: this shows nothing")
	}
	if err := a.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if n := leases(); n != 0 {
		t.Errorf("%d etcd leases are left", n)
	}
}

// TestOptionsAreCopied: a client that connects later does so with the options that Open was called with.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	opts := &Options{}
	locks, err := Open(t.Context(), "etcd://127.0.0.1:1", opts)
	must(t, err)
	defer locks.Close()
	opts.Prefix = "a{b\n" // which is refused
	if err := locks.Ping(t.Context()); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("Ping = %v; want ErrUnavailable, as the options were right when Open was called", err)
	}
}
