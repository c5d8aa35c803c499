// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// kvOf returns what s asks about keys through.
func kvOf(s *half) pb.KVClient { return pb.NewKVClient(s.client.ActiveConnection()) }

// through makes the requests of s about keys go through kv.
func through(s *half, kv pb.KVClient) { s.client.KV = clientv3.NewKVFromKVClient(kv, s.client) }

// txns is a client whose transactions go through f, which may send them.
type txns struct {
	pb.KVClient
	f func(in *pb.TxnRequest, send func() (*pb.TxnResponse, error)) (*pb.TxnResponse, error)
}

func (k *txns) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	late := context.WithoutCancel(ctx) // f may send it when its caller has gone
	return k.f(in, func() (*pb.TxnResponse, error) { return k.KVClient.Txn(late, in, opts...) })
}

// holdBack makes the next transaction of s that writes have no answer. The transaction is carried out when the test
// calls late, and at once as well if done is set.
func holdBack(s *half, done bool) (late func() (*pb.TxnResponse, error)) {
	var held func() (*pb.TxnResponse, error)
	through(s, &txns{kvOf(s), func(in *pb.TxnRequest, send func() (*pb.TxnResponse, error)) (*pb.TxnResponse, error) {
		if held != nil || len(in.Compare) == 0 {
			return send()
		}
		if held = send; done {
			_, _ = send()
		}
		return nil, errors.New("no answer")
	}})
	return func() (*pb.TxnResponse, error) {
		resp, err := held()
		return resp, clientv3.ContextError(context.Background(), err)
	}
}

// TestEatenReplyOfJoin: a waiter whose first answer is lost has a key. A caller that gives up undoes it. A caller that
// goes on waiting finds it, and makes no other.
func TestEatenReplyOfJoin(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	holdBack(a, true)
	held := take(t, b, request("deploy"))
	req := request("deploy")
	req.Queue = true
	ans, err := a.Ask(t.Context(), req)
	if err == nil || !driver.FailureOf(err).Maybe {
		t.Fatalf("Ask = %+v, %v; want that the outcome is open", ans, err)
	}
	if n := len(keys(t, b, "pawl/lock/")); n != 2 {
		t.Errorf("%d keys; want the holder's and the waiter's", n)
	}
	undo(t, a, req, ans)
	if n := len(keys(t, b, "pawl/lock/")); n != 1 {
		t.Errorf("%d keys; want the holder's", n)
	}
	a = openStore(t, m.url())
	holdBack(a, true)
	w := wait(t, a, request("deploy"))
	if n := len(keys(t, b, "pawl/lock/")); n != 2 {
		t.Errorf("%d keys; want the holder's and the waiter's", n)
	}
	release(t, held)
	release(t, w.granted(patience))
	nothingLeft(t, b)
}

// TestLateCreate: the transaction that creates the keys is carried out after the
// attempt was given up and undone. It must have no effect. The late one is sent as
// it was built, when the undo has been answered.
func TestLateCreate(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	s := openStore(t, m.url())
	req := request("deploy")
	l, err := s.newLease(t.Context(), req)
	must(t, err)
	if _, err := s.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease, Handle: l}, driver.End{Unsure: true, Doubt: true}); err != nil {
		t.Fatal(err)
	}
	if ans, err := l.try(t.Context(), req); !errors.Is(err, errGone) {
		t.Errorf("late attempt = %+v, %v; want it refused", ans, err)
	}
	if ans, err := l.join(t.Context(), req); !errors.Is(err, errGone) {
		t.Errorf("late waiter = %+v, %v; want it refused", ans, err)
	}
	nothingLeft(t, s)
}

// TestLateUndo: what undoes a lease that has ended leaves its etcd lease to the next one.
func TestLateUndo(t *testing.T) {
	t.Parallel()
	s := openStore(t, startServer(t).url())
	g := take(t, s, request("deploy"))
	release(t, g)
	next := take(t, s, request("deploy"))
	if next.backing.id != g.backing.id {
		t.Fatal("the next lease has another etcd lease: this shows nothing")
	}
	if found, err := s.End(t.Context(), driver.Ref{Name: "deploy", Lease: g.lease.id, Handle: g.lease}, driver.End{Unsure: true, Doubt: true}); found || err != nil {
		t.Errorf("End = %v, %v; want that nothing was there", found, err)
	}
	if _, err := next.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew of the next lease = %v", err)
	}
	release(t, next)
}

// TestLateRejoin: a waiter joins the queue twice, as the first answer does not come. It is granted the name and releases it, and then
// the first join is carried out. It must have no effect, as nobody would release
// what it makes: not even when the client goes on, with a spare etcd lease.
func TestLateRejoin(t *testing.T) {
	t.Parallel()
	s := openStore(t, startServer(t).url())
	release(t, take(t, s, request("other")))
	late := holdBack(s, false)
	g, err := s.Acquire(t.Context(), request("deploy"))
	if err != nil {
		t.Fatalf("Acquire = %v; want it granted by the second join", err)
	}
	release(t, g)
	next := take(t, s, request("other")) // with the spare, if there is one
	if resp, err := late(); !unknownLease(err) {
		t.Errorf("late join = %v, %v; want it refused", resp, err)
	}
	release(t, next)
	nothingLeft(t, s)
}

// TestLateRewrite: the transaction by which Renew binds the key to another etcd lease has no answer, and is carried out
// at once or not, and late, after renewals that the client trusts. If it had an effect then, the key would go with an
// etcd lease that nobody keeps alive. Each renewal has the TTL that it asks for.
func TestLateRewrite(t *testing.T) {
	t.Parallel()
	s := openStore(t, startServer(t).url())
	for i, next := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 30 * time.Second, time.Minute, 2 * time.Minute} {
		req := requestFor("deploy", 30*time.Second)
		g := take(t, s, req)
		late := holdBack(s, i >= 3)
		if since, err := g.Renew(t.Context(), time.Minute); err == nil {
			t.Fatalf("Renew = %v, %v; want no answer", since, err)
		}
		renew := func() {
			t.Helper()
			_, err := g.Renew(t.Context(), next)
			if b := keysOf(t, s, req)[0]; err != nil || g.backing.time() < next || b.Lease != int64(g.backing.id) {
				t.Errorf("Renew for %v = %v, and the key is bound to %x; want an etcd lease as long: %+v", next, err, b.Lease, g.backing)
			}
		}
		renew()
		renew()
		if resp, err := late(); err != nil || resp.Succeeded {
			t.Errorf("the late write: %v, %v; want it without effect", resp, err)
		}
		renew()
		release(t, g)
	}
	nothingLeft(t, s)
}

// TestTrustFromSending: trust counts from before a request was sent, however long its answer takes.
func TestTrustFromSending(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second // less than requestTimeout
	m := startServer(t)
	s := openStore(t, m.url())
	var g *grant
	drivertest.FromSending(t, &m.Server, "TryAcquire", most, func(try int) driver.Instant {
		g = take(t, s, request(fmt.Sprint("deploy/", try)))
		return g.Since()
	})
	for what, ttl := range map[string]time.Duration{"Renew": time.Minute, "Renew for longer": time.Hour} {
		drivertest.FromSending(t, &m.Server, what, most, func(int) driver.Instant {
			since, err := g.Renew(t.Context(), ttl)
			if err != nil {
				t.Error(err)
			}
			return since
		})
	}
	release(t, g)
}

// lateDelete is a client whose first deletion is carried out later.
type lateDelete struct {
	pb.KVClient
	late func() (*pb.DeleteRangeResponse, error)
}

func (k *lateDelete) DeleteRange(ctx context.Context, in *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	if k.late == nil {
		k.late = func() (*pb.DeleteRangeResponse, error) {
			return k.KVClient.DeleteRange(context.Background(), in, opts...)
		}
		return nil, context.DeadlineExceeded
	}
	return k.KVClient.DeleteRange(ctx, in, opts...)
}

// TestLateRelease: a release has no answer, is repeated, and is carried out once more
// when the client has the name again. It must not end that lease.
func TestLateRelease(t *testing.T) {
	t.Parallel()
	s := openStore(t, startServer(t).url())
	kv := &lateDelete{KVClient: kvOf(s)}
	through(s, kv)
	g := take(t, s, request("deploy"))
	if err := g.Release(t.Context()); !errors.Is(err, driver.ErrUncertain) {
		t.Fatalf("Release = %v; want that the outcome is open", err)
	}
	release(t, g)
	req := request("deploy")
	next := take(t, s, req)
	if _, err := kv.late(); err != nil {
		t.Fatal(err)
	}
	if n := len(keysOf(t, s, req)); n != 1 {
		t.Errorf("the late release has deleted the key of the next lease: %d keys", n)
	}
	release(t, next)
	nothingLeft(t, s)
}

// TestStreamsEnd: a stream for keepalives ends with its server. The next keepalive takes another stream.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	s := openStore(t, m.url())
	g := take(t, s, request("deploy"))
	must(t, keepAlive(t, s, g))
	m.restart()
	drivertest.Until(t, "there is no connection after a restart of the server", func() bool { _, err := s.queue(t.Context(), "deploy"); return err == nil })
	if err := keepAlive(t, s, g); err != nil {
		t.Errorf("a keepalive after a restart of the server = %v", err)
	}
	release(t, g)
}
