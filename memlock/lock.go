// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"github.com/pawl-go/pawl/driver"
)

// lock is one name. Store.mu guards it.
//
// A free name has no waiters: whoever ends a lease hands the name to the first
// waiter in the same critical section. So nobody can come in between, and
// TryAcquire cannot overtake the queue.
//
// It is never deleted, because it keeps the token, and is therefore small.
type lock struct {
	name       string
	token      uint64 // the largest granted so far
	holder     *grant // nil if free; may have expired without anybody having looked
	head, tail *waiter
}

// settle ends the lease of a holder whose time has passed. Every operation on a
// name begins with it, so expiry needs no timer: it happens when somebody asks.
// If somebody waits, the first of them asks at the right time.
func (s *Store) settle(l *lock, now driver.Instant) {
	if g := l.holder; g != nil && !s.NoExpiry && now >= g.expires() {
		g.lose(&driver.LostError{Reason: driver.Expired})
		l.handOver(now)
	}
}

// ask grants l to req if it is free, or if req is a repetition of the attempt
// that holds it. The repetition gets the old grant with the old Since.
func (s *Store) ask(p *participant, l *lock, req *driver.Request, now driver.Instant) (*grant, bool) {
	s.settle(l, now)
	switch {
	case l.holder == nil:
		return l.grant(p, req, now), true
	case l.holder.lease == req.Lease:
		return l.holder, true
	}
	return nil, false
}

// grant makes req the holder.
func (l *lock) grant(p *participant, req *driver.Request, now driver.Instant) *grant {
	l.token++
	l.holder = &grant{
		owner: p, lock: l,
		lease: req.Lease, holder: req.Holder, why: req.Why,
		token: l.token, acquired: now, since: now, ttl: req.TTL,
	}
	return l.holder
}

// handOver takes the name from its holder and gives it to the first waiter.
func (l *lock) handOver(now driver.Instant) {
	l.holder = nil
	w := l.head
	if w == nil {
		return
	}
	l.remove(w)
	w.grant = l.grant(w.owner, &w.req, now)
	w.wake()
	l.wakeHead()
}

// wakeHead makes the first waiter look again at when the holder's lease ends.
// It is called whenever either of the two has changed.
func (l *lock) wakeHead() {
	if l.head != nil {
		l.head.wake()
	}
}
