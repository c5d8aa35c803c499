// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"errors"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

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
	through(s, &txns{kvOf(s), func(in *pb.TxnRequest, send func() (*pb.TxnResponse, error)) (*pb.TxnResponse, error) {
		if slices.ContainsFunc(in.Success, func(op *pb.RequestOp) bool { return op.GetRequestPut() != nil }) {
			return send()
		}
		return nil, errors.New("no answer") // to a transaction that reads only
	}})
	req := slot()
	req.Queue = true
	ans, err := s.Ask(t.Context(), req)
	if err != nil || ans.Granted {
		t.Errorf("Ask = %+v, %v; want that it is in the queue", ans, err)
	}
	undo(t, s, req, ans)
	release(t, g)
}

// TestPlaceIsGone: a waiter whose key was deleted goes to the end of the queue. What undoes its first request ends the etcd
// lease of that one, and not of the next, which may have a spare and hold the name by then.
func TestPlaceIsGone(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	holder, s := openStore(t, m.url()), openStore(t, m.url())
	g := take(t, holder, request("deploy"))
	req := request("deploy")
	req.Queue = true
	ans, err := s.Ask(t.Context(), req)
	if err != nil || ans.Granted {
		t.Fatalf("Ask = %+v, %v; want that it is in the queue", ans, err)
	}
	first := ans.Handle.(*lease)
	first.sight.close()
	if _, err := holder.client.Delete(t.Context(), first.key); err != nil {
		t.Fatal(err)
	}
	release(t, g)
	release(t, take(t, s, request("spare"))) // the next attempt needs no round trip for an etcd lease
	req.Handle = first
	if ans, err = s.Ask(t.Context(), req); err != nil || !ans.Granted {
		t.Fatalf("Ask = %+v, %v; want the name, which is free", ans, err)
	}
	left := func(l *lease) int64 {
		resp, err := holder.client.TimeToLive(t.Context(), l.named)
		must(t, err)
		return resp.TTL
	}
	drivertest.Until(t, "no etcd lease is revoked", func() bool { return left(first) < 0 || left(ans.Handle.(*lease)) < 0 })
	if left(ans.Handle.(*lease)) < 0 {
		t.Error("the etcd lease of the lease that has the name is revoked")
	}
	undo(t, s, req, ans)
}
