// SPDX-License-Identifier: Apache-2.0

package memlock

import "github.com/pawl-go/pawl/driver"

// waiter is a request in the queue of a lock. Store.mu guards it.
type waiter struct {
	owner      *wire
	lock       *lock
	req        driver.Request
	since      driver.Instant
	prev, next *waiter
}

func (l *lock) enqueue(w *wire, req *driver.Request, now driver.Instant) {
	last := &waiter{owner: w, lock: l, req: *req, since: now}
	if w.store.waiters == nil {
		w.store.waiters = make(map[string]*waiter)
	}
	w.store.waiters[req.Lease] = last
	if l.tail == nil {
		l.head = last
	} else {
		l.tail.next, last.prev = last, l.tail
	}
	l.tail = last
}

// leave removes w from the queue.
func (l *lock) leave(w *waiter) {
	delete(w.owner.store.waiters, w.req.Lease)
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// quit removes the waiter with the given lease from the queue of l. It returns false if there is none.
func (s *Store) quit(l *lock, lease string) bool {
	w := s.waiters[lease]
	if w == nil || w.lock != l {
		return false
	}
	l.leave(w)
	return true
}

// dropWaiters removes the waiters of a crashed participant from the queue.
func (l *lock) dropWaiters(owner *wire, now driver.Instant) {
	for w := l.head; w != nil; {
		next := w.next
		if w.owner == owner {
			l.leave(w)
		}
		w = next
	}
	l.admit(now)
}
