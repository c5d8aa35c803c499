// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// lease describes a lease that the cluster has or may have, for a holder or a waiter. It is the Handle of the
// Answer.
type lease struct {
	s        *store
	id, name string
	ttl      time.Duration // of the request
	place    place
	key      string
	named    clientv3.LeaseID // the etcd lease in the key's name
	alone    bool             // the lease is exclusive
	after    int64            // store.rev before the key was put
	rev      int64            // create revision of the key; 0 until the key is known to exist
	held     bool             // the lease was granted
	waited   bool
	sight    *sight

	fresh bool // newLease has renewed or made the etcd lease

	renewing sync.Mutex // guards the fields below
	backing  *backing
	flights  int            // renewals under way; see fly
	told     driver.Instant // the instant that the last renewal returned
	next     *backing       // a write without an answer may bind the key to next; see rewrite
	shown    bool           // the record has the time of the grant, or show is writing it

	// store.mu guards the fields below.
	record record
	asked  bool  // a release has failed: the key may be deleted late
	ended  error // why the lease has ended, or nil
	spared bool  // the etcd lease is a spare: another lease may use it
}

// over returns the error by which the lease has ended, or nil.
func (l *lease) over() error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.ended
}

// answer returns the answer for a lease that holds its name.
func (l *lease) answer(since driver.Instant) driver.Answer {
	ans := driver.Answer{Granted: true, Token: tokenOf(l.rev), Waited: true, Since: since, Session: l.s}
	if l.alone {
		// If the name was free, nobody was waiting. A lease that has waited does not know whether others wait
		// behind it.
		ans.Spare, ans.Waited = reserved, !l.record.Keeps || l.waited
	}
	return ans
}
