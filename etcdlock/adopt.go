// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// A lease that another participant has got is known by its id. What becomes of its etcd lease is not known:
// whether that is free when the lease has ended, or whether the key is bound to another one. So each
// request looks first.

// holder finds the key of a lease. It returns a *LostError if that does not hold the name.
func (s *store) holder(ctx context.Context, ref driver.Ref) (entry, error) {
	q, err := s.queue(ctx, ref.Name)
	if err != nil {
		return entry{}, err
	}
	i := slices.IndexFunc(q[:q.holders()], func(e entry) bool { return e.kind != "" && e.record.Lease == ref.Lease })
	if i >= 0 {
		return q[i], nil
	}
	rctx, cancel := s.request(ctx)
	defer cancel()
	resp, err := s.client.Get(rctx, s.brokenKey(ref.Lease))
	if err != nil {
		return entry{}, &driver.LostError{Reason: driver.Gone}
	}
	return entry{}, lossIn(resp.Kvs)
}

// renewOther renews a lease of another participant. A keepalive counts if a read that was sent after it finds
// the key bound to the same etcd lease; see backing.
func (s *store) renewOther(ctx context.Context, ref driver.Ref, ttl time.Duration) (driver.Instant, error) {
	var last error
	for range maxProofs {
		e, err := s.holder(ctx, ref)
		if err != nil || ttl < driver.MinTTL {
			return 0, err
		}
		b := &backing{id: clientv3.LeaseID(e.kv.Lease), since: 1}
		rctx, cancel := s.request(ctx)
		resp, err := s.client.TimeToLive(rctx, b.id)
		cancel()
		switch {
		case unknownLease(err) || err == nil && resp.TTL <= 0:
			last = &driver.LostError{Reason: driver.Gone} // unless the key is bound to another one by now
			continue
		case err != nil:
			return 0, err
		}
		if b.seconds = resp.GrantedTTL; seconds(ttl) > b.seconds {
			return 0, fmt.Errorf("etcdlock: this lease was asked for with a TTL of %v, and whoever has only its id cannot make that %v: %w",
				b.time(), ttl, errors.ErrUnsupported)
		}
		if proven, err := s.keepOther(ctx, e, b); err != nil || proven {
			return b.since, err
		}
		last = errUnproven
	}
	return 0, last
}

// keepOther reports whether the lease has been renewed for certain.
func (s *store) keepOther(ctx context.Context, e entry, b *backing) (proven bool, err error) {
	rctx, cancel := s.request(ctx)
	defer cancel()
	err = b.keepAlive(rctx, s, 0)
	known := !unknownLease(err)
	if err != nil && known {
		return false, err
	}
	resp, err := s.client.Get(rctx, string(e.kv.Key), clientv3.WithKeysOnly())
	if err != nil {
		return false, err
	}
	return known && len(resp.Kvs) == 1 && resp.Kvs[0].CreateRevision == e.kv.CreateRevision &&
		resp.Kvs[0].Lease == int64(b.id) && b.proven(resp.Header.RaftTerm), nil
}

// endOther ends a lease of another participant. It deletes the key and the mark, which tells that one, as
// Break does. The etcd lease is left: the participant may use it for another lease by now.
func (s *store) endOther(ctx context.Context, ref driver.Ref) (found bool, err error) {
	for {
		e, err := s.holder(ctx, ref)
		if lost := lostBy(err); lost != nil {
			if lost.Reason == driver.Gone {
				return false, nil
			}
			return false, lost
		} else if err != nil {
			return false, err
		}
		rctx, cancel := s.request(ctx)
		resp, err := s.client.Txn(rctx).
			If(clientv3.Compare(clientv3.ModRevision(string(e.kv.Key)), "=", e.kv.ModRevision)).
			Then(clientv3.OpDelete(string(e.kv.Key)), clientv3.OpDelete(s.mark(e.record.Client, e.kv.Lease))).
			Commit()
		cancel()
		if err != nil {
			return false, s.failure(ctx, err, true)
		}
		if resp.Succeeded {
			return true, nil
		}
	}
}
