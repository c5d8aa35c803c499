// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

// waits is the answer to a waiter. It looks with each keepalive of its etcd lease as well, in case that its
// watch has failed silently.
func (l *lease) waits() driver.Answer {
	return driver.Answer{Rank: 1, Free: -1, Again: max(l.backing.due().Sub(driver.Now()), time.Millisecond), Session: l.s}
}

// join grants the name if nobody is in the way. Else it puts the keys of the lease at the end of the queue, if they are
// not there already, and begins to watch who was the last there. Repeating it after a lost answer does no harm. To put
// the keys in two places is quicker than to read who is last of nobody.
//
// It does not look by itself: what fails after the key has come into the queue fails in a request
// of its own, whose caller knows that it waits.
func (l *lease) join(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	from, to := l.place.rivals(req)
	last := read(&pb.RangeRequest{
		Key: []byte(from), RangeEnd: []byte(to), KeysOnly: true,
		SortOrder: pb.RangeRequest_DESCEND, SortTarget: pb.RangeRequest_CREATE, Limit: 1,
	})
	resp, err := l.commit(ctx, &pb.TxnRequest{
		Compare: l.unrivalled(req, 0),
		Success: l.puts(),
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{
			Compare: []*pb.Compare{l.absent()},
			Success: append([]*pb.RequestOp{last}, l.puts()...),
			Failure: []*pb.RequestOp{read(&pb.RangeRequest{Key: []byte(l.key), KeysOnly: true})},
		}}}},
	})
	if err != nil {
		return driver.Answer{}, err
	}
	rev := resp.Header.Revision
	if resp.Succeeded {
		return l.won(ctx, req, resp.Header, rev)
	}
	queued := resp.Responses[0].GetResponseTxn()
	kvs := queued.Responses[0].GetResponseRange().Kvs
	if !queued.Succeeded { // the key is there: the join was carried out before
		rev, kvs = kvs[0].CreateRevision, nil
	}
	if err := l.placed(ctx, rev); err != nil {
		return driver.Answer{}, err
	}
	l.waited = true
	q := l.s.readQueue(kvs)
	if len(q) == 0 || req.Slots > 0 || q.endless() != nil {
		return driver.Answer{Session: l.s}, nil // it looks at once
	}
	l.watch(&looked{rival: &q[0]})
	return l.waits(), nil // it looks when the watch is there
}

// step looks for a waiter, and keeps its place. The waiter bears every failure that may pass.
func (l *lease) step(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	var err error
	if driver.Now() >= l.backing.due() {
		rctx, cancel := l.s.request(ctx)
		err = l.backing.keepAlive(rctx, l.s, 0)
		cancel()
		if err != nil && !unknownLease(err) {
			return driver.Answer{}, l.s.failure(ctx, err, false)
		}
	}
	seen, fail := l.look(ctx, req)
	switch {
	case fail != nil:
		return driver.Answer{}, fail
	case err != nil: // the key is there: that member is behind
		return driver.Answer{}, l.s.failure(ctx, err, false)
	case seen.rival == nil:
		return l.claim(ctx, req, seen)
	}
	if !l.backing.proven(seen.term) {
		l.backing.asked = l.backing.since // the next keepalive is due earlier
	}
	l.watch(seen)
	return l.waits(), nil
}
