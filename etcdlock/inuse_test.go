// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/pawl-go/pawl/driver"
)

// TestKeepIdleInUseLate: whatever happens to the key between InUse and the write, that
// undoes nothing, and the answer tells.
func TestKeepIdleInUseLate(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	b := openStore(t, m.url())
	for what, come := range map[string]struct {
		f    func(e *ear, req *driver.Request)
		want error
	}{
		"asked":    {func(_ *ear, req *driver.Request) { refusedBy(t, b, req.Name) }, nil},
		"released": {func(e *ear, _ *driver.Request) { release(t, e) }, driver.ErrLost},
		"broken": {func(e *ear, req *driver.Request) {
			if err := b.Break(t.Context(), req.Name, req.Lease, nil, "test"); err != nil {
				t.Error(err)
			}
		}, driver.ErrLost},
	} {
		a := openStore(t, m.url())
		req := keepRequest(what)
		e := &ear{grant: take(t, a, req)} // and hears nothing
		through(a, &between{KVClient: a.kv, before: func() { come.f(e, req) }})
		if err := e.InUse(t.Context()); !errors.Is(err, come.want) {
			t.Errorf("%s: InUse = %v; want %v", what, err, come.want)
		}
		if own := keysOf(t, b, req); come.want != nil && len(own) > 0 {
			t.Errorf("%s: there is %v", what, own)
		} else if come.want == nil {
			q, err := b.queue(t.Context(), what)
			if err != nil || len(q) != 1 || q[0].keeps() || q[0].shared {
				t.Errorf("%s: %+v, %v", what, q, err)
			}
			release(t, e)
		}
	}
}

// between lets something happen before a transaction.
type between struct {
	pb.KVClient
	before func()
}

func (k *between) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if f := k.before; f != nil {
		k.before = nil
		f()
	}
	return k.KVClient.Txn(ctx, in, opts...)
}

// TestBreakWhileAsked: others ask all the time for a lease whose client does not answer.
func TestBreakWhileAsked(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	other := openStore(t, m.url())
	req := keepRequest("deploy")
	g := take(t, a, req)
	ask := &between{KVClient: b.kv}
	const many = 100
	asked := 0
	var again func()
	again = func() {
		refusedBy(t, other, "deploy")
		if asked++; asked == many {
			t.Errorf("Break has not ended after others have asked %d times", many)
			return
		}
		ask.before = again
	}
	ask.before = again
	through(b, ask)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Break(ctx, req.Name, req.Lease, nil, "test"); err != nil {
		t.Errorf("Break = %v", err)
	}
	if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Release = %v", err)
	}
}
