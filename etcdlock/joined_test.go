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

// TestJoinedBlindly: a request comes into the queue, and a look would fail. It does not look by itself: its participant has
// to know that it is in the queue, and takes it back if it gives up.
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
	through(s, blind{kvOf(s)})
	req := slot()
	req.Queue = true
	ans, err := s.Ask(t.Context(), req)
	if err != nil || ans.Granted {
		t.Errorf("Ask = %+v, %v; want that it is in the queue", ans, err)
	}
	undo(t, s, req, ans)
	release(t, g)
}
