// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// The reads of many renewals go together: see storekit.Batch.
const (
	fewReads = 8
	// mostAsked limits how many keys a transaction reads. Servers allow 128 operations by default.
	mostAsked = 64
	// A member that does not answer within lateRead may hang.
	lateRead = 100 * time.Millisecond
)

// proof is the answer to a read of a key, without its value.
type proof struct {
	own  *mvccpb.KeyValue // the key that was read; nil if it is gone
	term uint64
}

// prove reads the key of l with a linearizable read, which it sends after the call began. It returns a *LostError
// if the key is gone.
func (l *lease) prove(ctx context.Context) (*proof, error) {
	p, err := l.s.proofs.Do(ctx, l.key)
	switch {
	case err == nil && (p.own == nil || p.own.CreateRevision != l.rev):
		lost := l.s.loss(ctx, l.id)
		l.s.disown(l, lost)
		return nil, lost
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return p, err
}

// loss returns the reason why a lease has ended: the record of a break, if there is one.
func (s *store) loss(ctx context.Context, lease string) *driver.LostError {
	ctx, cancel := s.request(ctx)
	defer cancel()
	resp, err := s.client.Get(ctx, s.brokenKey(lease))
	if err != nil || len(resp.Kvs) == 0 {
		return &driver.LostError{Reason: driver.Gone}
	}
	return storekit.HowLost(string(resp.Kvs[0].Value))
}

func (s *store) readOne(ctx context.Context, key string) (*proof, error) {
	p := s.readAll(ctx, []string{key})[0]
	return p.Answer, p.Err
}

// readAll reads several keys. Only its callers limit its time: for a long TTL even a late answer is in time.
func (s *store) readAll(ctx context.Context, keys []string) []storekit.Reply[*proof] {
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(key, clientv3.WithKeysOnly())
	}
	ctx, cancel := s.within(ctx, ever)
	defer cancel()
	resp, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err == nil {
		s.term.Store(resp.Header.RaftTerm)
		s.saw(resp.Header.Revision)
	}
	replies := make([]storekit.Reply[*proof], len(keys))
	for i := range replies {
		if replies[i].Err = err; err == nil {
			p := &proof{term: resp.Header.RaftTerm}
			if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) == 1 {
				p.own = kvs[0]
			}
			replies[i].Answer = p
		}
	}
	return replies
}
