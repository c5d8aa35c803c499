// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// oneKey is a cluster with one key. It carries out each write, and does not answer the first.
type oneKey struct {
	pb.KVClient
	clientv3.Lease
	bound, last clientv3.LeaseID
	seconds     map[clientv3.LeaseID]int64
	answers     bool
}

func (k *oneKey) Grant(_ context.Context, secs int64) (*clientv3.LeaseGrantResponse, error) {
	k.last++
	k.seconds[k.last] = secs
	return &clientv3.LeaseGrantResponse{ID: k.last, TTL: secs}, nil
}

func (k *oneKey) Txn(_ context.Context, in *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	done := in.Compare[0].GetLease() == int64(k.bound)
	if done {
		k.bound = clientv3.LeaseID(in.Success[0].GetRequestPut().Lease)
	}
	if !k.answers {
		k.answers = true
		return nil, errors.New("no answer")
	}
	found := &pb.RangeResponse{}
	found.Kvs = append(found.Kvs, &mvccpb.KeyValue{Lease: int64(k.bound)})
	return &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: done, Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: found}}}}, nil
}

// TestRewriteForMore: after a write without an answer a renewal asks for a longer TTL. The etcd lease of that write would
// end long before the lease.
func TestRewriteForMore(t *testing.T) {
	for _, ttl := range []int64{30, 60, 120} {
		k := &oneKey{bound: 1, last: 1, seconds: map[clientv3.LeaseID]int64{1: 30}}
		c := new(clientv3.Client)
		c.KV, c.Lease = clientv3.NewKVFromKVClient(k, c), k
		s := &store{client: c}
		s.ctx, s.cancel = context.WithTimeout(t.Context(), time.Minute)
		l := &lease{s: s, key: "k", rev: 1, backing: &backing{id: 1, seconds: 30, marked: true}}
		if _, err := l.renew(t.Context(), 60); err == nil {
			t.Fatal("there was an answer")
		}
		if _, err := l.renew(t.Context(), ttl); err != nil || k.seconds[k.bound] < ttl || l.backing.id != k.bound {
			t.Errorf("a renewal for %d s = %v, and the key is bound to an etcd lease of %d s, %+v", ttl, err, k.seconds[k.bound], l.backing)
		}
		s.cancel()
	}
}
