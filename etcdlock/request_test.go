// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-go/pawl/driver"
)

// TestProofEnds: a read that proves renewals has as much time as the one that has the most.
func TestProofEnds(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ a, b, want time.Duration }{
		{time.Second, time.Minute, time.Minute},
		{-time.Second, -time.Minute, -time.Second},
	} {
		batch := []*proof{{deadline: now.Add(c.a)}, {deadline: now.Add(c.b)}}
		if got := until(batch).Sub(now); got != c.want {
			t.Errorf("with %v and %v left it ends in %v; want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestLateProofsMakeRoom: reads whose answers do not come, however long their leases can wait for them,
// keep the others waiting for the time of one request at most. They are repeated then.
func TestLateProofsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, hang, asked := new(proofs), make(chan struct{}), make(map[*proof]int)
		read := func(batch []*proof) (func(int, *proof), error) {
			q.mu.Lock()
			asked[batch[0]]++
			first := asked[batch[0]] == 1
			q.mu.Unlock()
			if batch[0].key == "late" && first {
				<-hang
				return nil, errUnproven
			}
			return func(int, *proof) {}, nil
		}
		late := make([]*proof, maxReads)
		for i := range late {
			late[i] = &proof{key: "late", done: make(chan struct{})}
			q.add(late[i], read)
			synctest.Wait()
		}
		p := &proof{done: make(chan struct{})}
		q.add(p, read)
		synctest.Wait()
		if closed(p.done) {
			t.Errorf("there are more than %d reads: this shows nothing", maxReads)
		}
		time.Sleep(requestTimeout)
		synctest.Wait()
		if !closed(p.done) {
			t.Errorf("after %v the others still wait for reads without an answer", requestTimeout)
		}
		for _, p := range late {
			if !closed(p.done) || p.err != nil {
				t.Fatal("a read without an answer is not repeated")
			}
		}
		close(hang)
		synctest.Wait()
		if q.readers != 0 {
			t.Errorf("in the end %d reads are counted", q.readers)
		}
	})
}

// TestRequestEnds with its caller's context, with the time for one request, and with
// Close, whichever is first.
func TestRequestEnds(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	type key struct{}
	caller := metadata.AppendToOutgoingContext(context.WithValue(t.Context(), key{}, 1), "authorization", "for others")
	const soon, late = time.Second, time.Hour
	for _, c := range []struct {
		name  string
		limit time.Duration // of the caller's context; 0: none
		end   func(s *half, cancel func())
		want  error
	}{
		{"no deadline", 0, func(_ *half, cancel func()) { cancel() }, context.Canceled},
		{"no deadline, closed", 0, func(s *half, _ func()) { s.Close() }, context.Canceled},
		{"a late deadline", late, func(_ *half, cancel func()) { cancel() }, context.Canceled},
		{"a late deadline, closed", late, func(s *half, _ func()) { s.Close() }, context.Canceled},
		{"a deadline soon", soon, func(*half, func()) {}, context.DeadlineExceeded},
	} {
		s := openStore(t, m.url())
		parent, cancel := context.WithCancel(caller)
		if c.limit > 0 {
			parent, cancel = context.WithTimeout(caller, c.limit)
		}
		ctx, done := s.request(parent)
		end, ok := ctx.Deadline()
		if left := time.Until(end); !ok || left > requestTimeout {
			t.Errorf("%s: the request has %v, %v; want %v at most", c.name, left, ok, requestTimeout)
		}
		md, _ := metadata.FromOutgoingContext(ctx)
		if ctx.Value(key{}) != 1 || len(md) != 1 || md.Get(rpctypes.MetadataRequireLeaderKey) == nil {
			t.Errorf("%s: the request has the metadata %v, and the caller's value %v", c.name, md, ctx.Value(key{}))
		}
		if ctx.Err() != nil && parent.Err() == nil {
			t.Errorf("%s: the request has ended: %v", c.name, ctx.Err())
		}
		c.end(s, cancel)
		select {
		case <-ctx.Done():
			if ctx.Err() != c.want {
				t.Errorf("%s: the request has ended with %v; want %v", c.name, ctx.Err(), c.want)
			}
		case <-time.After(patience):
			t.Errorf("%s: the request does not end", c.name)
		}
		done()
		cancel()
	}
}

// TestRequestsShareTheirEnd for a while, and then get a later one.
func TestRequestsShareTheirEnd(t *testing.T) {
	t.Parallel()
	var l limits
	first := l.next(t.Context())
	if l.next(t.Context()) != first {
		t.Error("two requests one after the other have a limit each")
	}
	l.until = driver.Now()
	second := l.next(t.Context())
	a, _ := first.Deadline()
	b, _ := second.Deadline()
	if !b.After(a) || first.Err() != nil {
		t.Errorf("limits %v and %v; want a later one, and the first to go on: %v", a, b, first.Err())
	}
}

// noted is a client that notes its transactions.
type noted struct {
	pb.KVClient
	txns []*pb.TxnRequest
}

func (k *noted) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if len(in.Compare) > 0 { // else it only reads
		k.txns = append(k.txns, in)
	}
	return k.KVClient.Txn(ctx, in, opts...)
}

// TestCrowdedName: nobody is in the way, so one transaction is enough, which compares
// once and puts one key. A client that is held up joins the queue with a second one, and the next
// time with the first, until nobody is in the way again.
func TestCrowdedName(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	kv := &noted{KVClient: a.kv}
	through(a, kv)
	acquire := func(state string, held bool, want ...bool) { // which of them are joins
		t.Helper()
		kv.txns = nil
		if held {
			g := take(t, b, request("deploy"))
			w := wait(t, a, request("deploy"))
			release(t, g)
			release(t, w.granted(patience))
		} else {
			g, err := a.Acquire(t.Context(), request("deploy"))
			if err != nil {
				t.Fatal(err)
			}
			release(t, g)
		}
		if len(kv.txns) != len(want) {
			t.Fatalf("%s: %d transactions; want %d", state, len(kv.txns), len(want))
		}
		for i, join := range want {
			if txn := kv.txns[i]; join != (len(txn.Failure) > 0) || !join && len(txn.Compare) != 1 {
				t.Errorf("%s: transaction %d is %v; want a join: %v", state, i, txn, join)
			}
		}
	}
	acquire("free", false, false)
	acquire("free again", false, false)
	if last := kv.txns[0]; len(last.Success) != 1 {
		t.Errorf("a free name costs the operations %v; want one put", last.Success)
	}
	acquire("held", true, false, true)
	acquire("held again", true, true)
	acquire("free after that", false, true)
	acquire("free once more", false, false)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
