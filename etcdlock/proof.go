// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver/storekit"
)

// Reads of many renewals go together: see storekit.Batch.
const (
	fewReads = 8
	// A transaction reads so many leases, with two operations each. Servers allow 128 operations by default.
	mostAsked = 32
	// A member that does not answer for so long may hang.
	lateRead = 100 * time.Millisecond
)

// question asks whether a lease still exists.
type question struct{ key, broken string }

// proof is the answer.
type proof struct {
	own, news []*mvccpb.KeyValue
	term      uint64
}

// prove reads the key of l, without its value, and the news of a break, in a linearizable read that is sent after the call
// began. It returns a *LostError if the key is gone.
func (l *lease) prove(ctx context.Context) (*proof, error) {
	p, err := l.s.proofs.Do(ctx, question{l.key, l.s.brokenKey(l.id)})
	switch {
	case err == nil:
		return p, l.check(p.own, p.news)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, err
}

func (s *store) readOne(ctx context.Context, q question) (*proof, error) {
	p := s.readAll(ctx, []question{q})[0]
	return p.Answer, p.Err
}

// readAll answers all questions. It has no time limit but its callers': a late answer is in time for a long TTL.
func (s *store) readAll(ctx context.Context, all []question) []storekit.Reply[*proof] {
	ops := make([]clientv3.Op, 0, 2*len(all))
	for _, q := range all {
		ops = append(ops, clientv3.OpGet(q.key, clientv3.WithKeysOnly()), clientv3.OpGet(q.broken))
	}
	ctx, cancel := s.within(ctx, ever)
	defer cancel()
	resp, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err == nil {
		s.term.Store(resp.Header.RaftTerm)
		s.saw(resp.Header.Revision)
	}
	replies := make([]storekit.Reply[*proof], len(all))
	for i := range replies {
		if replies[i].Err = err; err == nil {
			replies[i].Answer = &proof{
				own: resp.Responses[2*i].GetResponseRange().Kvs, news: resp.Responses[2*i+1].GetResponseRange().Kvs, term: resp.Header.RaftTerm,
			}
		}
	}
	return replies
}
