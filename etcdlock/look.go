// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// looked is the result of a waiter's look.
type looked struct {
	rev   int64
	term  uint64
	rival *entry // a key in the way; nil if the lease holds the name
	// If the slots before the waiter are too many: their keys, and the number of keys at which the waiter looks
	// again.
	keys   map[string]bool
	enough int
}

// look finds a key in the way. It uses linearizable reads.
func (l *lease) look(ctx context.Context, req *driver.Request) (*looked, error) {
	for before := l.rev; ; {
		resp, err := l.read(ctx, req, before)
		if err != nil {
			return nil, l.s.failure(ctx, err, false)
		}
		l.s.term.Store(resp.Header.RaftTerm)
		l.s.saw(resp.Header.Revision)
		own := resp.Responses[0].GetResponseRange().Kvs
		if len(own) != 1 || own[0].CreateRevision != l.rev {
			return nil, errGone
		}
		others := resp.Responses[1].GetResponseRange().Kvs
		seen := &looked{rev: resp.Header.Revision, term: resp.Header.RaftTerm}
		q := l.s.readQueue(others)
		if err := q.endless(); err != nil {
			return nil, &driver.Failure{Err: err, Lasting: true}
		}
		switch {
		case req.Slots > 0:
			seen.slots(q, req.Slots)
			return seen, nil
		case len(others) == 0:
			return seen, nil
		case len(q) > 0:
			seen.rival = &q[0]
			return seen, nil
		}
		before = others[0].CreateRevision // skip the key of another program
	}
}

// read reads the lease's key and the last key in the way with a create revision below before. For slots it reads
// all keys in the way.
func (l *lease) read(ctx context.Context, req *driver.Request, before int64) (*clientv3.TxnResponse, error) {
	ctx, cancel := l.s.request(ctx)
	defer cancel()
	from, to := l.place.rivals(req)
	order, limit := clientv3.SortDescend, int64(1)
	if req.Slots > 0 {
		order, limit = clientv3.SortAscend, 0
	}
	opts := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithMaxCreateRev(before - 1), clientv3.WithSort(clientv3.SortByCreateRevision, order), clientv3.WithLimit(limit)}
	return l.s.client.Txn(ctx).Then(clientv3.OpGet(l.key, clientv3.WithKeysOnly()), clientv3.OpGet(from, opts...)).Commit()
}

// slots finds what is in the way of one of n slots: the last lease of another kind, or all slots before it if
// there are too many.
func (l *looked) slots(q queue, n int) {
	for i := len(q) - 1; i >= 0; i-- {
		if q[i].sharing.Slots != n {
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
