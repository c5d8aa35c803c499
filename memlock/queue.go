// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// waiter is one call of Acquire in the queue of a lock. Store.mu guards it.
type waiter struct {
	owner      *participant
	lock       *lock
	req        driver.Request
	since      driver.Instant
	grant      *grant        // set when the name was handed to it; it then is out of the queue
	ready      chan struct{} // holds one signal to look again
	prev, next *waiter
}

func (l *lock) enqueue(p *participant, req *driver.Request, now driver.Instant) *waiter {
	w := &waiter{owner: p, lock: l, req: *req, since: now, ready: make(chan struct{}, 1)}
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next, w.prev = w, l.tail
	}
	l.tail = w
	return w
}

// leave takes w out of the queue.
func (l *lock) leave(w *waiter) {
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

// dropWaiters takes the waiters of p out of the queue. Their calls return
// because p.done is closed.
func (l *lock) dropWaiters(p *participant, now driver.Instant) {
	for w := l.head; w != nil; {
		next := w.next
		if w.owner == p {
			l.leave(w)
		}
		w = next
	}
	l.admit(now)
}

func (w *waiter) wake() {
	select {
	case w.ready <- struct{}{}:
	default: // it will look anyway
	}
}

// wait blocks until w has the name or gives up. Only the first in the queue
// watches the clock for the holders' expiry, so that a thousand waiters do not
// stampede.
func (w *waiter) wait(ctx context.Context) (driver.Grant, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		g, left, watch := w.look()
		if g != nil {
			return g.shown(), nil
		}
		var expiry <-chan time.Time
		if watch {
			timer.Reset(left)
			expiry = timer.C
		}
		select {
		case <-w.ready:
		case <-expiry:
		case <-ctx.Done():
			return nil, w.giveUp(ctx.Err())
		case <-w.owner.done:
			return nil, w.giveUp(fmt.Errorf("%w: memlock: %w", driver.ErrUnavailable, driver.ErrClosed))
		}
	}
}

// look returns the grant if w has it. Otherwise, if w is the first in the
// queue, watch is true and left is the time until the first lease ends.
func (w *waiter) look() (g *grant, left time.Duration, watch bool) {
	s := w.owner.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := driver.Now()
	s.settle(w.lock, now)
	if w.grant != nil {
		return w.grant, 0, false
	}
	if w.lock.head != w || s.NoExpiry {
		return nil, 0, false
	}
	return nil, w.lock.nextEnd().Sub(now), true
}

// giveUp gives up with err. If the name was handed to w in this very instant, it
// is put back, which hands it on: pretend that we did not get it.
func (w *waiter) giveUp(err error) error {
	s := w.owner.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := driver.Now()
	switch {
	case w.owner.crashed:
		// Crash took it out of the queue; what it was granted it cannot undo.
	case w.grant != nil:
		w.grant.release(now)
	default:
		w.lock.leave(w)
		w.lock.admit(now) // those behind it may fit with the holders
	}
	return err
}
