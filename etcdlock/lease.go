// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// lease is what the cluster has of one lease, held or waited for, or may have. It is the Handle of what
// was granted.
type lease struct {
	s        *store
	id, name string
	ttl      time.Duration // that it was asked for with
	place    place
	key      string
	named    clientv3.LeaseID // after which the key is named
	alone    bool             // exclusive
	after    int64            // the revision of the cluster before the key was put, as far as it was known
	rev      int64            // create revision of the key; 0 until it is known to be there
	held     bool             // it has been granted
	waited   bool
	sight    *sight

	fresh bool // the cluster has just said that the etcd lease is there

	renewing sync.Mutex // guards the fields below; see rewrite
	backing  *backing
	flights  int            // under way
	writes   int            // how often rewrite has begun
	told     driver.Instant // what a renewal has returned last
	next     *backing       // of a rewrite that has failed
	dirty    bool           // a write that binds the key to another etcd lease has an unknown outcome
	shown    bool           // the record says when it was acquired, or will soon

	// store.mu guards what follows.
	record record
	deaf   context.CancelFunc // ends overhear; nil unless its client may keep the lease
	asked  bool               // a release was sent whose answer did not come
	ended  error              // it has
	spared bool               // its etcd lease may be another's by now
}

// over returns why the lease has ended, or nil.
func (l *lease) over() error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.ended
}

// answer is that of a lease that holds its name.
func (l *lease) answer(since driver.Instant) driver.Answer {
	ans := driver.Answer{Granted: true, Token: tokenOf(l.rev), Waited: true, Since: since, Session: l.s}
	if l.alone {
		// Nobody waited for a name that was free. Of those who have come behind a waiter its looks say nothing.
		ans.Spare, ans.Waited = reserved, l.deaf == nil || l.waited
	}
	return ans
}

// check returns a *LostError unless own is the lease's key.
func (l *lease) check(own, broken []*mvccpb.KeyValue) error {
	if len(own) == 1 && own[0].CreateRevision == l.rev {
		return nil
	}
	lost := lossIn(broken)
	l.s.disown(l, lost)
	return lost
}

// lossIn reads the news of the end of a lease.
func lossIn(broken []*mvccpb.KeyValue) *driver.LostError {
	lost := &driver.LostError{Reason: driver.Gone}
	if len(broken) == 1 {
		lost.Reason = driver.Broken
		var n news
		if json.Unmarshal(broken[0].Value, &n) == nil {
			lost.By, lost.Why = n.By, n.Why
		}
	}
	return lost
}
