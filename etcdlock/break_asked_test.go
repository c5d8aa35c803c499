// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/pawl-go/pawl/driver"
)

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

// TestRenewalByIDBesideExtend: the key is bound to another etcd lease while somebody who knows the id of the lease keeps
// the one before alive. That is no renewal.
func TestRenewalByIDBesideExtend(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	req := request("deploy")
	g := take(t, a, req)
	through(b, &between{KVClient: b.kv, before: func() {
		if _, err := g.Renew(t.Context(), 2*time.Minute); err != nil {
			t.Error(err)
		}
	}})
	byID := driver.Ref{Name: req.Name, Lease: req.Lease}
	if r, err := b.Renew(t.Context(), byID, time.Minute); err == nil || errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %+v, %v; want that it is not proven", r, err)
	}
	if _, err := b.Renew(t.Context(), byID, time.Minute); err != nil {
		t.Errorf("the next Renew = %v", err)
	}
	release(t, g)
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
