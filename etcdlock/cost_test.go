// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestRequests: a lease that is free costs two requests, as a key that is created and
// deleted does, and the client is told nothing. The cluster is asked for an etcd lease
// once, and to keep it alive when it is not fresh.
func TestRequests(t *testing.T) {
	t.Parallel()
	const leases, ttl = 200, time.Minute
	m := startServer(t)
	s := openStore(t, m.url())
	g := take(t, s, requestFor("deploy", ttl))
	g.OnLost(func(err error) { t.Errorf("lost: %v", err) }) // listens
	release(t, g)
	count := func() (requests, keepalives, events float64) {
		for _, method := range []string{"Txn", "Range", "LeaseGrant", "LeaseRevoke", "DeleteRange", "Put"} {
			requests += m.metric(`grpc_server_started_total{grpc_method="` + method + `",grpc_service="etcdserverpb.` + service(method) + `",grpc_type="unary"}`)
		}
		return requests, m.metric(`grpc_server_msg_received_total{grpc_method="LeaseKeepAlive",grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"}`),
			m.metric("etcd_debugging_mvcc_events_total")
	}
	began := driver.Now()
	requests, keepalives, events := count()
	for i := range leases {
		acquire := s.TryAcquire
		if i%2 == 0 {
			acquire = s.Acquire
		}
		g, err := acquire(t.Context(), requestFor("deploy", ttl))
		must(t, err)
		release(t, g)
	}
	r, k, e := count()
	stale := 1 + float64(driver.Now().Sub(began)/(ttl/freshPart))
	t.Logf("%d leases: %v requests, %v keepalives, %v events", leases, r-requests, k-keepalives, e-events)
	if r-requests > 2*leases || k-keepalives > stale || e != events {
		t.Errorf("%d leases cost %v requests, %v keepalives, %v events; want %d, %v at most, none",
			leases, r-requests, k-keepalives, e-events, 2*leases, stale)
	}
}

func service(method string) string {
	switch method {
	case "LeaseGrant", "LeaseRevoke":
		return "Lease"
	}
	return "KV"
}

// TestSpareThatIsGone: an etcd lease that was good a moment ago, and that nobody was
// asked for again, has gone. The attempt begins anew, whatever it is.
func TestSpareThatIsGone(t *testing.T) {
	t.Parallel()
	s := openStore(t, startServer(t).url())
	for what, acquire := range map[string]func(context.Context, *driver.Request) (*participant.Lease, error){"TryAcquire": s.TryAcquire, "Acquire": s.Acquire} {
		var old []clientv3.LeaseID
		for _, g := range []*grant{take(t, s, request("deploy")), take(t, s, request("other"))} {
			old = append(old, g.backing.id)
			release(t, g)
		}
		for _, id := range old {
			if _, err := s.client.Revoke(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		asked := driver.Now()
		req := request("deploy")
		g, err := acquire(t.Context(), req)
		if err != nil {
			t.Fatalf("%s = %v", what, err)
		}
		if got := s.grantOf(g, req); got.Since() < asked || len(keys(t, s, got.backing.mark)) != 1 {
			t.Errorf("%s has a grant from %v ago, with the marks %q", what, driver.Now().Sub(g.Since()), keys(t, s, got.backing.mark))
		}
		release(t, g)
	}
}

// TestFresh: a lease begins with a sixteenth of its TTL gone at most, and only if it is
// certain that there is no more gone.
func TestFresh(t *testing.T) {
	const ttl = 16 * time.Second
	now := driver.Now()
	for _, c := range []struct {
		since, asked time.Duration // ago
		fresh        bool
	}{
		{0, 0, true},
		{900 * time.Millisecond, 900 * time.Millisecond, true},
		{1100 * time.Millisecond, 1100 * time.Millisecond, false},
		{900 * time.Millisecond, 100 * time.Millisecond, false}, // a keepalive without a proof
	} {
		b := &backing{since: now.Add(-c.since), asked: now.Add(-c.asked)}
		if got := b.fresh(now, ttl); got != c.fresh {
			t.Errorf("from %v ago, asked %v ago: fresh is %v; want %v", c.since, c.asked, got, c.fresh)
		}
	}
}

// TestKeysAreUsedAgain: etcd remembers keys that are deleted, and looks through those of a
// name with each request. So a client that takes a name again and again uses one key.
func TestKeysAreUsedAgain(t *testing.T) {
	t.Parallel()
	began := driver.Now()
	s := openStore(t, startServer(t).url())
	for _, req := range []driver.Request{{}, {Shared: true}, {Slots: 2}} {
		all := make(map[string]bool)
		for range 50 {
			again := request("deploy")
			again.Shared, again.Slots = req.Shared, req.Slots
			g := take(t, s, again)
			all[g.key] = true
			release(t, g)
		}
		if len(all) > 1+int(driver.Now().Sub(began)/time.Minute) {
			t.Errorf("50 leases one after the other, shared %v, slots %d, had %d keys; want one", req.Shared, req.Slots, len(all))
		}
	}
}

// TestBrokenLeavesNoSpare: of a lease that was broken the cluster keeps word for its
// holder, bound to its etcd lease, and the mark is gone: that is not used again.
func TestBrokenLeavesNoSpare(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	s, other := openStore(t, m.url()), openStore(t, m.url())
	req := request("deploy")
	g := take(t, s, req)
	must(t, other.Break(t.Context(), req.Name, req.Lease, &driver.Holder{Who: "operator"}, "it hangs"))
	var lost *driver.LostError
	if err := g.Release(t.Context()); !errors.As(err, &lost) || lost.Why != "it hangs" {
		t.Errorf("Release = %v; want who has broken the lease, and why", err)
	}
	nothingLeft(t, other)
	next := take(t, s, request("deploy"))
	if next.backing.id == g.backing.id {
		t.Error("the next lease has the etcd lease of the broken one")
	}
	release(t, next)
}

// TestReadTogether: a read of several keys answers for each of them.
func TestReadTogether(t *testing.T) {
	t.Parallel()
	s := openStore(t, startServer(t).url())
	var all []string
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, take(t, s, request(name)).key)
	}
	if _, err := s.client.Delete(t.Context(), all[1]); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.readAll(t.Context(), all) {
		switch {
		case r.Err != nil || r.Answer.term == 0 || (r.Answer.own == nil) != (i == 1):
			t.Errorf("key %d: %+v, %v; want that it is there: %t", i, r.Answer, r.Err, i != 1)
		case i != 1 && string(r.Answer.own.Key) != all[i]:
			t.Errorf("key %d is %s; want %s", i, r.Answer.own.Key, all[i])
		}
	}
}
