// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// grant is one lease, or an attempt of unknown outcome.
type grant struct {
	s     *store
	lease string
	key   string
	first driver.Instant
	rev   int64 // create revision of the key
	alone bool  // exclusive, as it was granted

	renewing sync.Mutex // guards the fields below; see rewrite
	backing  *backing
	flights  int            // under way
	writes   int            // how often rewrite has begun
	told     driver.Instant // what Renew has returned last
	next     *backing       // of a rewrite that has failed
	mod      int64          // mod revision of the key; 0: unknown
	dirty    bool           // a write that binds the key to another etcd lease has an unknown outcome
	written  bool           // the record says when it was acquired

	recall *recall          // if its client may keep it; or nil
	unsure bool             // an attempt: it may have been carried out, or be so later
	late   clientv3.LeaseID // to which a join under way may bind the key anew, when it has been deleted; or 0

	// store.mu guards what follows.
	mark   string // of the backing
	record draft
	ended  bool // released
	asked  bool // a release was sent whose answer did not come
	loss   storekit.Loss
}

var (
	_ driver.Notifier   = (*grant)(nil)
	_ driver.Reserver   = (*grant)(nil)
	_ driver.Recallable = (*grant)(nil)
)

// Token implements driver.Grant.
func (g *grant) Token() uint64 { return tokenOf(g.rev) }

// Reserved implements driver.Reserver. Of those who wait the transaction that granted
// the name has said nothing, unless it was asked because the lease may be kept.
func (g *grant) Reserved() (tokens uint64, others bool) {
	if g.alone {
		return reserved, g.recall == nil || g.recall.behind
	}
	return 0, true
}

// Since implements driver.Grant.
func (g *grant) Since() driver.Instant { return g.first }

// over returns why the grant has ended, as far as this participant knows.
func (g *grant) over() error {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	switch {
	case g.ended:
		return driver.ErrReleased
	case g.loss.Err() != nil:
		return g.loss.Err()
	case g.unsure:
		return driver.ErrUncertain
	}
	return nil
}

// check returns a *LostError unless own is the grant's key.
func (g *grant) check(own, broken []*mvccpb.KeyValue) error {
	if len(own) == 1 && own[0].CreateRevision == g.rev {
		return nil
	}
	lost := &driver.LostError{Reason: driver.Gone}
	if len(broken) == 1 {
		lost.Reason = driver.Broken
		var n news
		if json.Unmarshal(broken[0].Value, &n) == nil {
			lost.By, lost.Why = n.By, n.Why
		}
	}
	g.lose(lost)
	return lost
}

// lose notes that the grant has ended, and tells it.
func (g *grant) lose(why *driver.LostError) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.loss.Err() != nil || g.ended {
		return
	}
	delete(g.s.grants, g.mark)
	delete(g.s.ids, g.lease)
	delete(g.s.keys, g.key)
	g.recall.end()
	g.loss.Tell(why)
}

// OnLost implements driver.Notifier.
func (g *grant) OnLost(f func(error)) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.loss.OnLost(f)
	if g.loss.Err() == nil {
		g.s.listen()
	}
}

// Release implements driver.Grant. An attempt of unknown outcome is undone by
// revoking its etcd lease: that deletes its keys, and refuses them if they come
// later.
func (g *grant) Release(ctx context.Context) error {
	s := g.s
	s.mu.Lock()
	if g.ended {
		s.mu.Unlock()
		return nil
	}
	again := g.asked
	g.loss.Hush()
	g.recall.end()
	if s.grants[g.mark] == g {
		delete(s.grants, g.mark)
	}
	s.mu.Unlock()
	rctx, cancel := s.request(ctx)
	defer cancel()
	if g.unsure {
		if _, err := s.client.Revoke(rctx, g.backing.id); err != nil && !unknownLease(err) {
			return s.unrecorded(ctx, err).err
		}
		g.end()
		return nil
	}
	// Nobody else makes a key of this name for as long as this grant has its backing, and
	// so what is deleted is ours.
	resp, err := s.delete(rctx, g.key)
	if err == nil && g.late != 0 {
		if _, err = s.client.Revoke(rctx, g.late); unknownLease(err) {
			err = nil
		}
	}
	if err != nil {
		s.mu.Lock()
		g.asked = true
		s.mu.Unlock()
		s.doubt()
		return s.classify(ctx, err).err
	}
	var lost error
	if resp.Deleted == 0 && !again {
		if lost = g.over(); lost == nil {
			lost = g.howLost(rctx)
		}
	}
	g.end()
	// A request that had no answer may be carried out late: nobody must make a key of that
	// name again, which it would delete.
	if resp.Deleted > 0 && !again {
		g.reuse()
	}
	return lost
}

// howLost returns how the lease ended whose key is not there any more, as far as that can
// be learnt now.
func (g *grant) howLost(ctx context.Context) error {
	var lost *driver.LostError
	if _, err := g.prove(ctx); !errors.As(err, &lost) {
		return &driver.LostError{Reason: driver.Gone}
	}
	if lost.Reason == driver.Broken {
		_, _ = g.s.client.Delete(ctx, g.s.brokenKey(g.lease)) // if not now, it goes with the etcd lease
	}
	return lost
}

func (g *grant) end() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.ended = true
	g.recall.end()
	delete(g.s.ids, g.lease)
	delete(g.s.keys, g.key)
}

// reuse keeps the etcd lease for another attempt, if no request that could bind
// something to it may still be under way.
func (g *grant) reuse() {
	if !g.renewing.TryLock() {
		return
	}
	defer g.renewing.Unlock()
	if !g.dirty && g.late == 0 && g.flights == 0 {
		g.s.spare(g.backing)
	}
}
