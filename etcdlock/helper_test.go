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
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
)

// half is a participant, and its wire beneath.
type half struct {
	*participant.Participant
	wire
}

type wire struct{ *store }

func halfOf(d driver.Store) *half {
	return &half{participant.New(d, participant.Options{}), wire{d.(*store)}}
}

// grant is one of a participant, and what its wire knows of it.
type grant struct {
	*participant.Lease
	*lease
}

// openStore opens a participant, closed when the test ends.
func openStore(t testing.TB, url string) *half {
	t.Helper()
	d, err := NewStore(context.Background(), url, nil)
	must(t, err)
	h := halfOf(d)
	t.Cleanup(func() { h.Close() })
	return h
}

// openClient opens a client with the given TTL, closed when the test ends.
func openClient(t testing.TB, url string, ttl time.Duration) *pawl.Client {
	t.Helper()
	opts := new(Options)
	opts.TTL = ttl
	c, err := Open(context.Background(), url, opts)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// request is an attempt whose lease does not expire during the test.
func request(name string) *driver.Request { return requestFor(name, time.Minute) }

func requestFor(name string, ttl time.Duration) *driver.Request {
	return &driver.Request{Name: name, Lease: rand.Text(), TTL: ttl, Holder: &driver.Holder{Who: "test"}}
}

func take(t testing.TB, s *half, req *driver.Request) *grant {
	t.Helper()
	g, err := s.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire = %v", err)
	}
	return s.grantOf(g, req)
}

// grantOf returns a grant with what the wire knows of it.
func (h *half) grantOf(g *participant.Lease, req *driver.Request) *grant {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	for _, l := range h.backed {
		if l.id == req.Lease {
			return &grant{g, l}
		}
	}
	return &grant{g, nil}
}

func release(t testing.TB, g interface{ Release(context.Context) error }) {
	t.Helper()
	if err := g.Release(context.Background()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// refOf returns the lease of a request, as far as the wire has got with it.
func refOf(req *driver.Request, ans driver.Answer) driver.Ref {
	return driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots, Handle: ans.Handle}
}

// undo ends what a request may have left that had no answer.
func undo(t testing.TB, s *half, req *driver.Request, ans driver.Answer) {
	t.Helper()
	if _, err := s.End(context.Background(), refOf(req, ans), driver.End{Unsure: true, Doubt: true}); err != nil {
		t.Errorf("End = %v", err)
	}
}

// waiting is an Acquire that waits.
type waiting struct {
	*drivertest.Waiting
	t    testing.TB
	half *half
	req  *driver.Request
}

// wait begins to wait and returns when the key is in the queue.
func wait(t testing.TB, s *half, req *driver.Request) *waiting {
	t.Helper()
	return &waiting{drivertest.Wait(t, s.Participant, req, func() bool { return len(keysOf(t, s, req)) == 1 }), t, s, req}
}

// granted returns the grant, which must come in time.
func (w *waiting) granted(d time.Duration) *grant {
	w.t.Helper()
	return w.half.grantOf(w.Granted(w.t, d), w.req)
}

// keys returns the keys that begin with prefix, as the cluster has them.
func keys(t testing.TB, s *half, prefix string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	must(t, err)
	all := []string{}
	for _, kv := range resp.Kvs {
		all = append(all, string(kv.Key))
	}
	return all
}

// keysOf returns the keys of an attempt.
func keysOf(t testing.TB, s *half, req *driver.Request) (own []*mvccpb.KeyValue) {
	t.Helper()
	var q queue
	var err error
	if !eventually(patience, func() bool { q, err = s.queue(context.Background(), req.Name); return err == nil }) {
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
func nothingLeft(t testing.TB, s *half) {
	t.Helper()
	var left []string
	if !eventually(patience, func() bool {
		left = append(keys(t, s, s.prefix+lockPart), keys(t, s, s.prefix+brokenPart)...)
		return len(left) == 0
	}) {
		t.Errorf("left in the store: %s", strings.Join(left, ", "))
	}
}
