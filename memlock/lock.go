// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// lock is one name. Store.mu guards it.
//
// Whoever ends a lease, and whoever leaves the queue, lets in those waiters who
// fit now in the same critical section. So at any other time the first waiter
// does not fit, nobody can come in between, and TryAcquire cannot overtake the
// queue: it has only to look whether there is one.
//
// It is never deleted, because it keeps the token, and is therefore small.
type lock struct {
	name       string
	token      uint64   // the largest granted so far
	holders    []*grant // in the order of tokens; some may have expired without anybody having looked
	head, tail *waiter
}

// fits reports whether req may be held together with the present holders, which
// are all of one kind.
func (l *lock) fits(req *driver.Request) bool {
	if len(l.holders) == 0 {
		return true
	}
	h := l.holders[0]
	switch {
	case req.Shared:
		return h.shared
	case req.Slots > 0:
		return h.slots == req.Slots && len(l.holders) < req.Slots
	}
	return false
}

// settle ends the leases whose time has passed. Every operation on a name begins
// with it, so expiry needs no timer: it happens when somebody asks. If somebody
// waits, the first of them asks at the right time.
func (s *Store) settle(l *lock, now driver.Instant) {
	if s.NoExpiry {
		return
	}
	ended := false
	for i := 0; i < len(l.holders); {
		g := l.holders[i]
		if now < g.expires() {
			i++
			continue
		}
		g.lose(&driver.LostError{Reason: driver.Expired})
		l.holders = slices.Delete(l.holders, i, i+1)
		ended = true
	}
	if ended {
		l.admit(now)
	}
}

// ask grants l to req if it fits and nobody waits, or if req is a repetition of
// an attempt that holds it. The repetition gets the old grant with the old Since.
// If there is neither a grant nor an error, the name is held.
func (s *Store) ask(p *participant, l *lock, req *driver.Request, now driver.Instant) (*grant, error) {
	s.settle(l, now)
	if g := l.holder(req.Lease); g != nil {
		return g, nil
	}
	if err := l.otherSlots(req); err != nil {
		return nil, err
	}
	if l.admits(req) {
		return l.grant(p, req, now), nil
	}
	return nil, nil
}

// admits reports whether req may be granted now: it does not overtake.
func (l *lock) admits(req *driver.Request) bool { return l.head == nil && l.fits(req) }

func (l *lock) otherSlots(req *driver.Request) error {
	if held := l.slots(); held > 0 && req.Slots > 0 && held != req.Slots {
		return &driver.SlotsError{Held: held, Wanted: req.Slots}
	}
	return nil
}

// holder returns the holder with the given lease, or nil.
func (l *lock) holder(lease string) *grant {
	for _, g := range l.holders {
		if g.lease == lease {
			return g
		}
	}
	return nil
}

// slots returns how many slots the name has while some are held, and else 0.
func (l *lock) slots() int {
	if len(l.holders) == 0 {
		return 0
	}
	return l.holders[0].slots
}

// grant makes req a holder.
func (l *lock) grant(p *participant, req *driver.Request, now driver.Instant) *grant {
	l.token++
	g := &grant{
		owner: p, lock: l,
		lease: req.Lease, holder: req.Holder, why: req.Why, shared: req.Shared, slots: req.Slots,
		token: l.token, acquired: now, since: now, ttl: req.TTL,
		others: l.head != nil, keeps: req.Keeps,
	}
	if req.Keeps {
		g.spare = reserved
		l.token += reserved
	}
	l.holders = append(l.holders, g)
	return g
}

// remove takes the name from g, if it is a holder, and lets in the waiters that fit now.
func (l *lock) remove(g *grant, now driver.Instant) {
	if i := slices.Index(l.holders, g); i >= 0 {
		l.holders = slices.Delete(l.holders, i, i+1)
		l.admit(now)
	}
}

// admit grants the name to the waiters at the front of the queue that fit. It is
// called whenever the holders or the queue have changed. Then the first that does
// not fit watches the clock anew.
func (l *lock) admit(now driver.Instant) {
	for w := l.head; w != nil && l.fits(&w.req); w = l.head {
		l.leave(w)
		w.grant = l.grant(w.owner, &w.req, now)
		w.wake()
	}
	if l.head != nil {
		l.head.wake()
	}
}

// nextEnd returns when the first of the leases ends unless it is renewed.
func (l *lock) nextEnd() driver.Instant {
	first := l.holders[0].expires()
	for _, g := range l.holders[1:] {
		first = min(first, g.expires())
	}
	return first
}
