// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxRenewals bounds the renewals of one client that are under way, so that a
// store that hangs does not collect a goroutine for each lease.
const maxRenewals = 1024

// renewals are the leases whose renewal is due, in the order in which they
// became due, and the goroutines that renew them. There is no goroutine while
// nothing is due.
type renewals struct {
	mu      sync.Mutex
	waiting []*Lease
	next    int // of waiting
	workers int
	closed  bool
	idle    sync.WaitGroup // workers
}

func (r *renewals) add(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.next > len(r.waiting)/2 {
		r.waiting, r.next = slices.Delete(r.waiting, 0, r.next), 0
	}
	r.waiting = append(r.waiting, l)
	if r.workers < maxRenewals {
		r.workers++
		r.idle.Go(r.work)
	}
}

// close forgets what is waiting and returns when the workers have ended.
func (r *renewals) close() {
	r.mu.Lock()
	r.closed, r.waiting, r.next = true, nil, 0
	r.mu.Unlock()
	r.idle.Wait()
}

func (r *renewals) work() {
	for l := r.take(); l != nil; l = r.take() {
		l.renew()
	}
}

// take returns the next lease, or nil, after which the worker must end.
func (r *renewals) take() *Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == len(r.waiting) {
		r.workers--
		r.waiting, r.next = r.waiting[:0], 0
		return nil
	}
	l := r.waiting[r.next]
	r.waiting[r.next] = nil
	r.next++
	return l
}

// wake does what is due at now and says when to be woken next.
func (l *Lease) wake(now driver.Instant) {
	l.check()
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return
	}
	overdue := now >= l.suspectAt && l.state == Held
	renew := now >= l.renewAt
	if renew {
		l.renewAt = never
	}
	if overdue {
		l.state = Suspect
	}
	due := l.next()
	l.mu.Unlock()
	l.client.sched.wakeAt(l, due)
	if renew {
		l.client.renewals.add(l)
	}
	if overdue {
		l.client.observer.suspect(l, nil)
	}
}

// next returns when the lease has to be woken. l.mu is held.
func (l *Lease) next() driver.Instant {
	due := min(l.deadline(), l.renewAt)
	if l.state == Held {
		due = min(due, l.suspectAt)
	}
	return due
}

// confirmed notes that the store began a TTL at since. l.mu is held.
//
// Renewals are due at a third of the TTL, a little spread so that leases
// acquired together do not stay together. One that is missing at two thirds is
// overdue: two attempts have gone unanswered by then.
func (l *Lease) confirmed(since driver.Instant) {
	l.since = max(l.since, since)
	l.state = Held
	l.renewErr = nil
	l.renewAt, l.suspectAt = never, never
	if l.client.guarantees.Expiry && !l.fixed {
		l.renewAt = l.since.Add(l.ttl/3 - spread(l.ttl/30))
		l.suspectAt = l.since.Add(l.ttl * 2 / 3)
	}
}

// renew makes one attempt. A failed one is repeated until the deadline.
func (l *Lease) renew() {
	l.mu.Lock()
	ended, ttl, left := l.cause != nil, l.ttl, l.deadline().Sub(driver.Now())
	l.mu.Unlock()
	if ended {
		return
	}
	// An attempt that hangs must leave time for another.
	timeout := min(left, max(ttl/6, 20*time.Millisecond))
	ctx, cancel := context.WithTimeout(l.client.ctx, timeout)
	defer cancel()
	l.asking.Lock()
	err := l.ask(ctx, ttl)
	l.asking.Unlock()
	if err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrReleased) {
		return
	}
	l.mu.Lock()
	news := l.cause == nil && l.state != Suspect
	if l.cause == nil {
		l.state = Suspect
		l.renewErr = err
		l.renewAt = driver.Now().Add(max(ttl/40, time.Millisecond) + spread(ttl/40))
	}
	due := l.next()
	l.mu.Unlock()
	l.client.sched.wakeAt(l, due)
	if news {
		l.client.observer.suspect(l, err)
	}
}

// ask asks the store for ttl anew. A refusal loses the lease; an answer that
// comes after the end of the lease changes nothing. l.asking is held.
func (l *Lease) ask(ctx context.Context, ttl time.Duration) error {
	began := driver.Now()
	since, err := l.grant.Renew(ctx, ttl)
	if errors.Is(err, ErrLost) {
		l.lose(asLost(err, driver.Gone))
		return l.ended()
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return l.ended()
	}
	l.ttl = ttl
	l.confirmed(since)
	due := l.next()
	l.mu.Unlock()
	l.client.sched.wakeAt(l, due)
	l.client.observer.renewed(l, driver.Now().Sub(began))
	return nil
}

// Extend renews the lease now, for ttl from now, beyond the next renewal if
// ttl is longer than the TTL so far; later renewals are for ttl too. A lease
// with NoRenew is extended in no other way. MaxHold still bounds it.
//
// The error is ErrLost or ErrReleased if the lease has ended; after any other
// error the lease is held, and ends no later than if Extend had not been called.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return &Error{"extend", l.name, err}
	}
	l.check()
	if err := l.extend(ctx, ttl); err != nil {
		if ctx.Err() != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrReleased) {
			return ctx.Err()
		}
		return &Error{"extend", l.name, err}
	}
	return nil
}

func (l *Lease) extend(ctx context.Context, ttl time.Duration) error {
	l.asking.Lock()
	defer l.asking.Unlock()
	now := driver.Now()
	l.mu.Lock()
	if cause := l.cause; cause != nil {
		l.mu.Unlock()
		return cause
	}
	if !l.client.guarantees.Expiry {
		l.ttl = ttl
		l.confirmed(now)
	} else if now.Add(ttl-driver.Drift(ttl)) < l.deadline() {
		// Shorter than what we have. The store may obey although its answer is
		// lost, so the earlier end holds from before the request is sent.
		l.since, l.ttl = now, ttl
		l.renewAt = min(l.renewAt, now.Add(ttl/3))
	}
	due := l.next()
	l.mu.Unlock()
	l.client.sched.wakeAt(l, due)
	if !l.client.guarantees.Expiry {
		return nil
	}
	return l.ask(ctx, ttl)
}

// asLost returns the *LostError in err, or one with the given reason.
func asLost(err error, reason driver.Reason) *LostError {
	var lost *LostError
	if errors.As(err, &lost) {
		return lost
	}
	return &LostError{Reason: reason}
}

// spread returns a random duration in [0, d).
func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
