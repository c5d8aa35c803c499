// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// openStore opens a participant, closed when the test ends.
func openStore(t testing.TB, url string) *store {
	t.Helper()
	d, err := NewDriver(context.Background(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*store)
}

// openClient opens a client with the given TTL, closed when the test ends.
func openClient(t testing.TB, url string, ttl time.Duration) *pawl.Client {
	t.Helper()
	opts := new(Options)
	opts.TTL = ttl
	c, err := Open(context.Background(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// request is an attempt whose lease does not expire during the test.
func request(name string) *driver.Request { return requestFor(name, time.Minute) }

func requestFor(name string, ttl time.Duration) *driver.Request {
	return &driver.Request{Name: name, Lease: rand.Text(), TTL: ttl, Holder: &driver.Holder{Who: "test"}}
}

func take(t testing.TB, s *store, req *driver.Request) *grant {
	t.Helper()
	g, err := s.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire = %v", err)
	}
	return g.(*grant)
}

func release(t testing.TB, g driver.Grant) {
	t.Helper()
	if err := g.Release(context.Background()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// waiting is an Acquire that waits.
type waiting struct {
	t      testing.TB
	cancel context.CancelFunc
	done   chan struct{}
	grant  driver.Grant
	err    error
	at     driver.Instant // when it returned
}

// wait begins to wait and returns when the key is in the queue.
func wait(t testing.TB, s *store, req *driver.Request) *waiting {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiting{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.grant, w.err = s.Acquire(ctx, req)
		w.at = driver.Now()
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
	if !eventually(patience, func() bool { return len(keysOf(t, s, req)) == 1 }) {
		t.Fatal("the waiter does not come into the queue")
	}
	return w
}

// granted returns the grant, which must come in time.
func (w *waiting) granted(d time.Duration) driver.Grant {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(d):
		w.t.Fatalf("Acquire still waits after %v", d)
	}
	if w.err != nil {
		w.t.Fatalf("Acquire = %v", w.err)
	}
	return w.grant
}

func (w *waiting) waits() bool {
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// keys returns the keys that begin with prefix, as the cluster has them.
func keys(t testing.TB, s *store, prefix string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, kv := range resp.Kvs {
		all = append(all, string(kv.Key))
	}
	return all
}

// keysOf returns the keys of an attempt.
func keysOf(t testing.TB, s *store, req *driver.Request) (own []*mvccpb.KeyValue) {
	t.Helper()
	q, err := s.queue(context.Background(), req.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range q {
		if e.record.Lease == req.Lease {
			own = append(own, e.kv)
		}
	}
	return own
}

// nothingLeft checks that no key of ours is there any more but the marks of spares,
// which go with those.
func nothingLeft(t testing.TB, s *store) {
	t.Helper()
	var left []string
	if !eventually(patience, func() bool {
		left = append(keys(t, s, s.prefix+lockPart), keys(t, s, s.prefix+brokenPart)...)
		return len(left) == 0
	}) {
		t.Errorf("left in the store: %s", strings.Join(left, ", "))
	}
}
