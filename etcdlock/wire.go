// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// The requests of which every lease needs some are made as they go over the wire. Those
// of package clientv3 are copied twice on their way, and cost as much again.

func read(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func put(key, value string, lease clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
		Key: []byte(key), Value: []byte(value), Lease: int64(lease),
	}}}
}

// created compares the create revisions of all keys in a range, or of one key if to is
// empty.
func created(key, to string, how pb.Compare_CompareResult, rev int64) *pb.Compare {
	c := &pb.Compare{
		Key: []byte(key), Target: pb.Compare_CREATE, Result: how, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: rev},
	}
	if to != "" {
		c.RangeEnd = []byte(to)
	}
	return c
}

// callOptions are those of package clientv3.
var callOptions = []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32)}

// txn sends a transaction that writes.
func (s *store) txn(ctx context.Context, txn *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := s.kv.Txn(ctx, txn, callOptions...)
	return resp, clientv3.ContextError(ctx, err)
}

func (s *store) delete(ctx context.Context, key string) (*pb.DeleteRangeResponse, error) {
	resp, err := s.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(key)}, callOptions...)
	return resp, clientv3.ContextError(ctx, err)
}
