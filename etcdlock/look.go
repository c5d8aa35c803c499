// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// looked is what a waiter has seen.
type looked struct {
	rev   int64
	term  uint64
	rival *entry // that is in the way; nil if the name is ours
	// Somebody has come later, if it was asked for.
	behind bool
	// Slots of which there are too many before us: their keys, and how few of them
	// must be left.
	keys   map[string]bool
	enough int
}

// look finds who is in the way, in one linearizable read.
func (a *attempt) look(ctx context.Context) (*looked, *failure) {
	for before := a.rev; ; {
		resp, err := a.read(ctx, before)
		if err != nil {
			return nil, a.s.unrecorded(ctx, err)
		}
		a.s.term.Store(resp.Header.RaftTerm)
		a.s.saw(resp.Header.Revision)
		own := resp.Responses[0].GetResponseRange().Kvs
		if len(own) != 1 || own[0].CreateRevision != a.rev {
			return nil, &failure{err: unavailable(errors.New("etcdlock: the place in the queue is lost")), gone: true}
		}
		others := resp.Responses[1].GetResponseRange().Kvs
		l := &looked{rev: resp.Header.Revision, term: resp.Header.RaftTerm}
		if a.req.Slots > 0 {
			l.slots(a.s.readQueue(others), a.req.Slots)
			return l, nil
		}
		if keeps(a.req) {
			l.behind = len(resp.Responses[2].GetResponseRange().Kvs) > 0
		}
		if len(others) == 0 {
			return l, nil
		}
		if e, ok := a.s.parse(others[0]); ok {
			l.rival = &e
			return l, nil
		}
		before = others[0].CreateRevision // no key of ours: look further
	}
}

// read asks for the own key, and for the last in the way that was created before a
// revision; for slots, for all. If the lease may be kept, also for one that came later.
func (a *attempt) read(ctx context.Context, before int64) (*clientv3.TxnResponse, error) {
	ctx, cancel := a.s.request(ctx)
	defer cancel()
	from, to := a.place.rivals(a.req)
	opts := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithMaxCreateRev(before - 1)}
	if a.req.Slots > 0 {
		opts = append(opts, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithKeysOnly())
	} else {
		opts = append(opts, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1))
	}
	ops := []clientv3.Op{clientv3.OpGet(a.key, clientv3.WithKeysOnly()), clientv3.OpGet(from, opts...)}
	if keeps(a.req) {
		ops = append(ops, clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithMinCreateRev(a.rev+1), clientv3.WithLimit(1), clientv3.WithKeysOnly()))
	}
	return a.s.client.Txn(ctx).Then(ops...).Commit()
}

// slots finds who is in the way of one of n slots: the last that cannot hold it
// together with us, or all before us if they are too many.
func (l *looked) slots(q queue, n int) {
	for i := len(q) - 1; i >= 0; i-- {
		if q[i].slots != n {
			l.rival = &q[i]
			return
		}
	}
	if len(q) < n {
		return
	}
	l.rival, l.keys, l.enough = &q[0], make(map[string]bool, len(q)), n-1
	for _, e := range q {
		l.keys[string(e.kv.Key)] = true
	}
}
