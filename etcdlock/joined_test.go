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

// blind is a client that gets no answer to a transaction that reads only.
type blind struct{ pb.KVClient }

func (k blind) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	for _, op := range in.Success {
		if op.GetRequestPut() != nil {
			return k.KVClient.Txn(ctx, in, opts...)
		}
	}
	return nil, errors.New("no answer")
}

// TestJoinedBlindly: a request stands in the queue, and then the look at who is before it fails. It may
// have been carried out, so that its participant takes it back.
func TestJoinedBlindly(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	slot := func() *driver.Request {
		req := request("deploy")
		req.Slots = 1
		return req
	}
	g := take(t, openStore(t, m.url()), slot())
	s := openStore(t, m.url())
	through(s, blind{s.kv})
	req := slot()
	req.Queue = true
	if _, err := s.Ask(t.Context(), req); err == nil || !driver.FailureOf(err).Maybe {
		t.Errorf("Ask = %v; want that it may have been carried out", err)
	}
	if _, err := s.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease}, driver.End{Unsure: true}); err != nil {
		t.Error(err)
	}
	release(t, g)
}
