// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// A client knows a lease of another client only by its id. The other client may bind the key to another etcd lease
// at any time, so each request reads the key first.

// holder finds the key of a lease. It returns a *LostError if the lease does not hold the name.
func (s *store) holder(ctx context.Context, ref driver.Ref) (entry, error) {
	q, err := s.queue(ctx, ref.Name)
	if err != nil {
		return entry{}, err
	}
	i := slices.IndexFunc(q[:q.holders()], func(e entry) bool { return e.kind != "" && e.record.Lease == ref.Lease })
	if i >= 0 {
		return q[i], nil
	}
	return entry{}, s.loss(ctx, ref.Lease)
}

// renewOther renews a lease of another client.
func (s *store) renewOther(ctx context.Context, ref driver.Ref, ttl time.Duration) (driver.Instant, error) {
	e, err := s.holder(ctx, ref)
	if err != nil || ttl < driver.MinTTL {
		return 0, err
	}
	b := &backing{id: clientv3.LeaseID(e.kv.Lease), since: 1}
	rctx, cancel := s.request(ctx)
	defer cancel()
	resp, err := s.client.TimeToLive(rctx, b.id)
	if err != nil || resp.TTL <= 0 {
		return 0, cmp.Or(err, errUnproven) // the etcd lease has ended, or the key is bound to another one now
	}
	if b.seconds = resp.GrantedTTL; seconds(ttl) > b.seconds {
		return 0, fmt.Errorf("etcdlock: this lease was asked for with a TTL of %v, and a caller that has only its id cannot make that %v: %w",
			b.time(), ttl, errors.ErrUnsupported)
	}
	l := &lease{s: s, id: ref.Lease, key: string(e.kv.Key), rev: e.kv.CreateRevision, backing: b}
	err = l.verify(rctx, b)
	return b.since, err
}

// endOther ends a lease of another client. It keeps the etcd lease, which that client may use for another lease.
func (s *store) endOther(ctx context.Context, ref driver.Ref) (found bool, err error) {
	for {
		e, err := s.holder(ctx, ref)
		if err == nil {
			found, err = s.remove(ctx, e)
		}
		if lost := lostBy(err); lost != nil && lost.Reason == driver.Gone {
			return false, nil
		}
		if found || err != nil {
			return found, err
		}
	}
}

// remove deletes the key of a holder, and its mark, which tells its client. It returns false if the key has
// changed or is gone.
func (s *store) remove(ctx context.Context, e entry, also ...clientv3.Op) (bool, error) {
	key := string(e.kv.Key)
	ops := []clientv3.Op{clientv3.OpDelete(key)}
	if e.kind != "" && e.kv.Lease != 0 { // else no client listens to a mark, and also would leave a key that never ends
		ops = append(append(ops, clientv3.OpDelete(s.mark(e.record.Client, e.named))), also...)
	}
	rctx, cancel := s.request(ctx)
	defer cancel()
	resp, err := s.client.Txn(rctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", e.kv.ModRevision)).
		Then(ops...).Commit()
	switch {
	case unknownLease(err): // the etcd lease has ended in the meantime
		return false, nil
	case err != nil:
		return false, s.failure(ctx, err, true)
	}
	return resp.Succeeded, nil
}
