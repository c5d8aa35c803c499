// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

var _ driver.Adopter = (*store)(nil)

// Adopt implements driver.Adopter.
func (s *store) Adopt(ctx context.Context, name, lease string) (driver.Grant, error) {
	a := &adopted{s: s, name: name, lease: lease}
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	a.rev = a.kv.CreateRevision
	return a, nil
}

// adopted is a lease that another participant may have got. Unlike that one it cannot know
// what becomes of the etcd lease: whether that is free when the lease has ended, or whether
// the key is bound to another one. So it looks, and compares with what it has seen.
type adopted struct {
	s           *store
	name, lease string
	rev         int64 // create revision of the key

	mu      sync.Mutex // guards the fields below, and is held during requests
	kv      *mvccpb.KeyValue
	client  string // the participant that has got it
	backing *backing
	ended   bool // released
	asked   bool // a release was sent whose answer did not come
}

// Token implements driver.Grant.
func (a *adopted) Token() uint64 { return tokenOf(a.rev) }

// Since implements driver.Grant.
func (a *adopted) Since() driver.Instant { return 1 }

// look finds the key of the lease. It returns a *LostError if that does not hold the name.
func (a *adopted) look(ctx context.Context) error {
	q, err := a.s.queue(ctx, a.name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(q[:q.holders()], func(e entry) bool {
		return e.kind != "" && e.record.Lease == a.lease && (a.rev == 0 || e.kv.CreateRevision == a.rev)
	})
	if i < 0 {
		return a.lost(ctx)
	}
	if a.kv = q[i].kv; a.backing == nil || int64(a.backing.id) != a.kv.Lease {
		a.backing = nil
	}
	a.client = q[i].record.Client
	return nil
}

// lost returns how the lease has ended.
func (a *adopted) lost(ctx context.Context) error {
	rctx, cancel := a.s.request(ctx)
	defer cancel()
	lost := &driver.LostError{Reason: driver.Gone}
	resp, err := a.s.client.Get(rctx, a.s.brokenKey(a.lease))
	var n news
	if err == nil && len(resp.Kvs) == 1 && json.Unmarshal(resp.Kvs[0].Value, &n) == nil {
		lost.Reason, lost.By, lost.Why = driver.Broken, n.By, n.Why
	}
	return lost
}

// Renew implements driver.Grant. A keepalive counts if a read that was sent after it finds
// the key bound to the same etcd lease; see backing.
func (a *adopted) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return 0, driver.ErrReleased
	}
	for range maxProofs {
		if err := a.back(ctx); err != nil {
			return 0, err
		}
		if seconds(ttl) > a.backing.seconds {
			return 0, fmt.Errorf("etcdlock: this lease was asked for with a TTL of %v, and whoever has only its id cannot make that %v: %w",
				a.backing.time(), ttl, errors.ErrUnsupported)
		}
		proven, err := a.keepAlive(ctx)
		if err != nil {
			return 0, err
		}
		if proven {
			return a.backing.since, nil
		}
		if err := a.look(ctx); err != nil {
			return 0, err
		}
	}
	return 0, a.s.unrecorded(ctx, errUnproven).err
}

// back asks how long the etcd lease lives to which the key is bound.
func (a *adopted) back(ctx context.Context) error {
	if a.backing != nil {
		return nil
	}
	rctx, cancel := a.s.request(ctx)
	defer cancel()
	id := clientv3.LeaseID(a.kv.Lease)
	resp, err := a.s.client.TimeToLive(rctx, id)
	switch {
	case unknownLease(err) || err == nil && resp.TTL <= 0:
		return a.lost(ctx)
	case err != nil:
		return a.s.unrecorded(ctx, err).err
	}
	a.backing = &backing{id: id, seconds: resp.GrantedTTL, since: 1}
	return nil
}

// keepAlive reports whether the lease has been renewed for certain.
func (a *adopted) keepAlive(ctx context.Context) (proven bool, err error) {
	rctx, cancel := a.s.request(ctx)
	defer cancel()
	err = a.backing.keepAlive(rctx, a.s, 0)
	known := !unknownLease(err)
	if err != nil && known {
		return false, a.s.unrecorded(ctx, err).err
	}
	resp, err := a.s.client.Get(rctx, string(a.kv.Key), clientv3.WithKeysOnly())
	if err != nil {
		return false, a.s.unrecorded(ctx, err).err
	}
	if len(resp.Kvs) != 1 || resp.Kvs[0].CreateRevision != a.rev {
		return false, a.lost(ctx)
	}
	return known && resp.Kvs[0].Lease == int64(a.backing.id) && a.backing.proven(resp.Header.RaftTerm), nil
}

// Release implements driver.Grant. It deletes the key and the mark, which tells the
// participant that has got the lease, as Break does. The etcd lease is left: that
// participant may use it for another lease by now.
func (a *adopted) Release(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.ended {
		if err := a.look(ctx); err != nil {
			if a.asked && errors.Is(err, driver.ErrLost) {
				a.ended = true
				return nil
			}
			return err
		}
		rctx, cancel := a.s.request(ctx)
		resp, err := a.s.client.Txn(rctx).
			If(clientv3.Compare(clientv3.ModRevision(string(a.kv.Key)), "=", a.kv.ModRevision)).
			Then(clientv3.OpDelete(string(a.kv.Key)), clientv3.OpDelete(a.s.mark(a.client, a.kv.Lease))).
			Commit()
		cancel()
		if err != nil {
			a.asked = true
			return a.s.classify(ctx, err).err
		}
		a.ended = resp.Succeeded
	}
	return nil
}
