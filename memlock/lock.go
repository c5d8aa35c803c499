// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// lock is one name. Store.mu guards it.
//
// When a lease ends or a waiter leaves the queue, the waiters that fit are granted the name in the same critical
// section. So at any other time the first waiter does not fit, and nobody can come in between. A request cannot
// overtake the queue if it only checks whether there is one.
//
// A lock is never deleted, because it keeps the token. So it is small.
type lock struct {
	name    string
	token   uint64    // the largest token granted so far
	holders []*holder // in the order of tokens; some may have expired, see settle
	queue   []*waiter
	broken  *broken // the last lease that was broken
}

// waiter is a request in the queue of a lock.
type waiter struct {
	owner *wire
	req   driver.Request
	since driver.Instant
}

// place returns the place of a lease in the queue, or -1.
func (l *lock) place(lease string) int {
	return slices.IndexFunc(l.queue, func(w *waiter) bool { return w.req.Lease == lease })
}

// broken is a lease that was broken, and its error.
type broken struct {
	lease string
	loss  *driver.LostError
}

// loss returns the reason why a lease that does not hold l has ended.
func (l *lock) loss(lease string) *driver.LostError {
	if l != nil && l.broken != nil && l.broken.lease == lease {
		return l.broken.loss
	}
	return &driver.LostError{Reason: driver.Gone}
}

// holder is a lease. A client may hold a hundred thousand leases, so a holder has no timer.
type holder struct {
	owner    *wire
	lock     *lock
	lease    string
	holder   *driver.Holder
	why      string
	shared   bool
	slots    int
	token    uint64
	spare    uint64 // number of tokens reserved after token
	waited   bool   // others were waiting at the grant
	keeps    bool   // the client may keep the lease after its release
	acquired driver.Instant
	since    driver.Instant // when the TTL began
	ttl      time.Duration
}

// reserved is the number of tokens that are reserved for a lease that its client may keep.
const reserved = 4000

func (h *holder) expires() driver.Instant { return h.since.Add(h.ttl) }

func (h *holder) answer() driver.Answer {
	return driver.Answer{Granted: true, Token: h.token, Spare: h.spare, Waited: h.waited, Since: h.since, Session: h.owner.store, Handle: h}
}

// lose tells the client of a lease that somebody else has ended the lease.
func (h *holder) lose(why *driver.LostError) {
	if !h.owner.crashed {
		h.owner.tell(driver.Event{Kind: driver.Lost, Name: h.lock.name, Lease: h.lease, Loss: why})
	}
}

// fits reports whether req may hold the name together with the present holders, which are all of one kind.
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

// settle ends the leases that have expired. Every operation on a name begins with it, so expiry needs no timer: a
// lease ends when somebody looks. If there are waiters, the first of them looks at the right time.
func (s *Store) settle(l *lock, now driver.Instant) {
	if s.NoExpiry {
		return
	}
	ended := false
	for i := 0; i < len(l.holders); {
		h := l.holders[i]
		if now < h.expires() {
			i++
			continue
		}
		h.lose(&driver.LostError{Reason: driver.Expired})
		l.holders = slices.Delete(l.holders, i, i+1)
		ended = true
	}
	if ended {
		l.admit(now)
	}
}

// find returns the holder for ref, or nil.
func (s *Store) find(ref driver.Ref, now driver.Instant) *holder {
	l := s.locks[ref.Name]
	if l == nil {
		return nil
	}
	s.settle(l, now)
	return l.holder(ref.Lease)
}

// admits reports whether req may be granted now without overtaking the queue.
func (l *lock) admits(req *driver.Request) bool { return len(l.queue) == 0 && l.fits(req) }

func (l *lock) otherSlots(req *driver.Request) error {
	if held := l.slots(); held > 0 && req.Slots > 0 && held != req.Slots {
		return &driver.SlotsError{Held: held, Wanted: req.Slots}
	}
	return nil
}

// holder returns the holder with the given lease, or nil.
func (l *lock) holder(lease string) *holder {
	for _, h := range l.holders {
		if h.lease == lease {
			return h
		}
	}
	return nil
}

// slots returns the number of slots that the name has while some are held, and otherwise 0.
func (l *lock) slots() int {
	if len(l.holders) == 0 {
		return 0
	}
	return l.holders[0].slots
}

// grant makes req a holder.
func (l *lock) grant(w *wire, req *driver.Request, now driver.Instant) *holder {
	l.token++
	h := &holder{
		owner: w, lock: l,
		lease: req.Lease, holder: req.Holder, why: req.Why, shared: req.Shared, slots: req.Slots,
		token: l.token, acquired: now, since: now, ttl: req.TTL,
		waited: len(l.queue) > 0, keeps: req.Keeps,
	}
	if req.Keeps {
		h.spare = reserved
		l.token += reserved
	}
	l.holders = append(l.holders, h)
	return h
}

// replace grants req, which is shared, in place of an exclusive lease. Then it admits waiting readers, up to the
// first writer.
func (l *lock) replace(w *wire, req *driver.Request, now driver.Instant) (driver.Answer, error) {
	old := l.holder(req.Instead)
	if old == nil {
		return driver.Answer{}, l.loss(req.Instead)
	}
	l.holders = l.holders[:0]
	h := l.grant(w, req, now)
	l.admit(now)
	return h.answer(), nil
}

// remove ends h, if it is a holder, and admits the waiters that fit now.
func (l *lock) remove(h *holder, now driver.Instant) {
	if i := slices.Index(l.holders, h); i >= 0 {
		l.holders = slices.Delete(l.holders, i, i+1)
		l.admit(now)
	}
}

// admit grants the name to the waiters at the front of the queue that fit. It is called whenever the holders or
// the queue have changed. The first waiter that does not fit is told when to look again.
func (l *lock) admit(now driver.Instant) {
	for len(l.queue) > 0 && l.fits(&l.queue[0].req) {
		w := l.queue[0]
		l.queue = l.queue[1:]
		h := l.grant(w.owner, &w.req, now)
		w.owner.tell(driver.Event{Kind: driver.Granted, Name: l.name, Lease: h.lease, Grant: h.answer()})
	}
	if len(l.queue) > 0 {
		w := l.queue[0]
		w.owner.tell(driver.Event{Kind: driver.Look, Name: l.name, Lease: w.req.Lease, Grant: driver.Answer{Free: w.owner.store.free(l, now)}})
	}
}

// free returns the time until the first of the leases ends unless it is renewed.
func (s *Store) free(l *lock, now driver.Instant) time.Duration {
	if s.NoExpiry || len(l.holders) == 0 {
		return -1
	}
	first := l.holders[0].expires()
	for _, h := range l.holders[1:] {
		first = min(first, h.expires())
	}
	return first.Sub(now)
}

// recall tells the clients that may keep a lease that another client wants the name.
func (l *lock) recall(waits bool) {
	for _, h := range l.holders {
		if h.keeps && !h.owner.crashed {
			h.owner.tell(driver.Event{Kind: driver.Wanted, Name: l.name, Lease: h.lease, Waits: waits})
		}
	}
}
