// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// lease is what the cluster has, or may have, of a lease that is held or waited for. It is the Handle of the Answer.
type lease struct {
	s        *store
	id, name string
	ttl      time.Duration // of the request
	place    place
	key      string
	named    clientv3.LeaseID // the key is named after it
	alone    bool             // exclusive
	after    int64            // a revision of the cluster before the key was put
	rev      int64            // create revision of the key; 0 until it is known to exist
	held     bool             // the lease was granted
	waited   bool
	sight    *sight

	fresh bool // the cluster has just answered for the etcd lease

	renewing sync.Mutex // guards the fields below
	backing  *backing
	flights  int            // under way
	told     driver.Instant // what the last renewal returned
	next     *backing       // a write without an answer binds the key to it; see rewrite
	shown    bool           // the record has the time of the grant, or show is under way

	// store.mu guards the fields below.
	record record
	asked  bool  // a release had no answer
	ended  error // why the lease has ended, or nil
	spared bool  // another lease may have its etcd lease
}

// over returns why the lease has ended, or nil.
func (l *lease) over() error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.ended
}

// answer returns the answer of a lease that holds its name.
func (l *lease) answer(since driver.Instant) driver.Answer {
	ans := driver.Answer{Granted: true, Token: tokenOf(l.rev), Waited: true, Since: since, Session: l.s}
	if l.alone {
		// A name that was free had no waiters. A waiter does not know whether others wait behind it.
		ans.Spare, ans.Waited = reserved, !l.record.Keeps || l.waited
	}
	return ans
}
