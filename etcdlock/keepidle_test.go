// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// use has c take and release a name, and returns the id and token of the lease.
func use(t testing.TB, c *pawl.Client, name string) (id string, token pawl.Token) {
	t.Helper()
	l, err := c.Acquire(t.Context(), name, pawl.KeepIdle(time.Hour))
	if err == nil {
		err = l.Release(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.ID(), l.Token()
}

// kept has c keep a name, and returns its last token.
func kept(t testing.TB, c *pawl.Client, name string) (last pawl.Token) {
	t.Helper()
	was := ""
	if !eventually(patience, func() bool {
		id, token := use(t, c, name)
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		same := id == was
		was, last = id, token
		return same
	}) {
		t.Fatal("nothing is kept")
	}
	return last
}

// TestKeepIdle: what nobody uses costs its client no request, and others get it as soon as
// they ask.
func TestKeepIdle(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	const ttl = 10 * time.Minute // a waiter looks by itself after a third
	c, other := openClient(t, m.url(), ttl), openClient(t, m.url(), ttl)
	for what, call := range map[string]func() (release func(context.Context) error, token pawl.Token, err error){
		"Acquire": func() (func(context.Context) error, pawl.Token, error) {
			return got(other.Acquire(t.Context(), "kept"))
		},
		"TryAcquire": func() (func(context.Context) error, pawl.Token, error) {
			return got(other.TryAcquire(t.Context(), "kept"))
		},
	} {
		// A busy machine may take longer than TryAcquire asks.
		if !eventually(patience, func() bool {
			last := kept(t, c, "kept")
			before := m.metric(`grpc_server_started_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",grpc_type="unary"}`)
			for range 20 {
				_, last = use(t, c, "kept")
			}
			if n := m.metric(`grpc_server_started_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",grpc_type="unary"}`) - before; n > 0 {
				t.Errorf("%v requests for what is kept", n)
			}
			began := time.Now()
			release, token, err := call()
			if errors.Is(err, pawl.ErrHeld) {
				return false
			}
			if err != nil || token <= last {
				t.Fatalf("%s: %d, %v after token %d", what, token, err, last)
			}
			took := time.Since(began)
			if err := release(t.Context()); err != nil {
				t.Error(err)
			}
			return took < soon
		}) {
			t.Errorf("%s of others does not get what nobody uses", what)
		}
	}
}

func got(l *pawl.Lease, err error) (func(context.Context) error, pawl.Token, error) {
	if err != nil {
		return nil, 0, err
	}
	return l.Release, l.Token(), nil
}

// TestKeepIdleManyWant: two of those who want what is kept at once get it one after the
// other, and its client gets it again.
func TestKeepIdleManyWant(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	c := openClient(t, m.url(), time.Minute)
	for _, try := range []bool{true, false} {
		name := fmt.Sprint("kept, try=", try)
		last := kept(t, c, name)
		var within atomic.Int32
		var all sync.WaitGroup
		for range 2 {
			other := openClient(t, m.url(), time.Minute)
			all.Go(func() {
				for end := time.Now().Add(patience); time.Now().Before(end); {
					acquire := other.Acquire
					if try {
						acquire = other.TryAcquire
					}
					l, err := acquire(t.Context(), name, pawl.KeepIdle(time.Hour))
					if errors.Is(err, pawl.ErrHeld) {
						continue // the other one has it in use, for once
					}
					if err != nil || l.Token() <= last || within.Add(1) != 1 {
						t.Errorf("%v, %v after token %d, and %d are within", l, err, last, within.Load())
						return
					}
					time.Sleep(time.Millisecond)
					within.Add(-1)
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
					return
				}
				t.Error("does not get what nobody uses")
			})
		}
		all.Wait()
		if _, token := use(t, c, name); token <= last {
			t.Errorf("token %d after %d", token, last)
		}
	}
}

// TestKeepIdleRestart: the server restarts while a name is kept. Others get it all the same,
// before its TTL is over.
func TestKeepIdleRestart(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	c, other := openClient(t, m.url(), 10*time.Minute), openClient(t, m.url(), 10*time.Minute)
	last := kept(t, c, "kept")
	m.restart()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := other.Acquire(ctx, "kept")
	if err != nil || l.Token() <= last {
		t.Fatalf("%v, %v after token %d", l, err, last)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, openStore(t, m.url()))
}

// TestKeepIdleContention: clients take a name in bursts, and keep it or not. Two are never
// within at once, and tokens grow. None sleeps while the name is free: the TTL is long.
func TestKeepIdleContention(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	var all sync.WaitGroup
	var within, reused, turns atomic.Int64
	began := time.Now()
	more := func() bool { // on a busy machine nobody may have kept anything by then
		took := time.Since(began)
		return took < 3*time.Second || reused.Load() == 0 && took < patience
	}
	var last pawl.Token // guarded by the lock
	for i := range 6 {
		c := openClient(t, m.url(), time.Hour)
		all.Go(func() {
			for id := ""; more(); time.Sleep(rand.N(20 * time.Millisecond)) {
				for range 1 + rand.IntN(20) {
					acquire, d := c.Acquire, rand.N(time.Duration(i+1)*10*time.Millisecond)
					if rand.IntN(4) == 0 {
						acquire = c.TryAcquire
					}
					began := time.Now()
					l, err := acquire(t.Context(), "deploy", pawl.KeepIdle(d))
					if errors.Is(err, pawl.ErrHeld) {
						continue
					}
					if err != nil {
						t.Errorf("after %v: %v", time.Since(began), err)
						return
					}
					if n := within.Add(1); n != 1 || l.Token() <= last {
						t.Errorf("%d are within, with token %d after %d", n, l.Token(), last)
					}
					if turns.Add(1); l.ID() == id {
						reused.Add(1)
					}
					id, last = l.ID(), l.Token()
					within.Add(-1)
					if took := time.Since(began); took > patience {
						t.Errorf("waited %v", took)
					}
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if t.Logf("%d turns, %d without a request", turns.Load(), reused.Load()); reused.Load() == 0 {
		t.Error("nothing was kept: this shows nothing")
	}
}
