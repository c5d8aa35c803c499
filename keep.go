// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// firstRenewal is when a lease is renewed that began with less than its TTL.
const firstRenewal = 10 * time.Millisecond

// errOverdue is why a lease is suspect whose renewal has not failed.
var errOverdue = errors.New("its renewal is overdue")

// wake does what is due at now and says when to be woken next.
func (l *Lease) wake(now driver.Instant) {
	l.check()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return
	}
	if now >= l.suspectAt && l.state == Held {
		l.state = Suspect
		l.client.observer.suspect(l, errOverdue, l.deadline().Sub(now))
	}
	if now >= l.renewAt {
		l.renewAt = never
		if !l.asking { // or what is under way is as good as a renewal
			l.client.renewals.add(l)
		}
	}
	l.rest()
}

// rest sets when the lease has to be woken. l.mu is held, so that no earlier
// time is overwritten by a later one.
func (l *Lease) rest() {
	due := min(l.deadline(), l.renewAt)
	if l.state == Held {
		due = min(due, l.suspectAt)
	}
	l.client.sched.wakeAt(l, due)
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
		l.renewAt = l.since.Add(l.ttl/3 - l.client.random.spread(l.ttl/30))
		l.suspectAt = l.since.Add(l.ttl * 2 / 3)
		if l.suspectAt <= driver.Now() {
			// Little of the TTL was left from the beginning, and nothing has gone unanswered.
			// Its renewal is under way very soon, and tells if it fails.
			l.suspectAt = never
		}
	}
}

// renew makes one attempt. A failed one is repeated until the deadline.
func (l *Lease) renew() {
	l.mu.Lock()
	if l.cause != nil || l.asking {
		l.mu.Unlock()
		return
	}
	l.asking = true
	ttl := l.ttl
	l.mu.Unlock()
	_ = l.ask(l.client.ctx, ttl) // it notes the error
}

// ask asks the store for ttl anew; l.asking has been set by the caller, so that
// no two such requests of one lease are under way. A refusal loses the lease;
// an answer that comes after the end of the lease changes nothing.
func (l *Lease) ask(ctx context.Context, ttl time.Duration) error {
	l.mu.Lock()
	// An attempt that hangs must leave time for another.
	left := l.deadline().Sub(driver.Now())
	timeout := min(left, max(min(l.ttl/6, left*2/3), 20*time.Millisecond))
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := driver.Now()
	since, err := l.grant.Renew(ctx, ttl)
	if errors.Is(err, ErrLost) {
		l.loseGrant(asLost(err, driver.Gone))
	}
	h := l.present()
	defer h.mu.Unlock()
	h.answered()
	switch {
	case h.cause != nil:
	case h != l && h.fixed: // nobody has asked for it
	case err != nil:
		h.failed(err)
	case h != l && ttl < h.ttl: // an Extend, for less than h was told that it has
		h.renewAt = driver.Now()
	default:
		if h == l {
			h.ttl = ttl
		}
		h.confirmed(since)
		h.client.observer.renewed(h, driver.Now().Sub(began))
	}
	h.rest()
	if h != l {
		return ErrReleased
	}
	if h.cause != nil {
		return h.cause
	}
	return err
}

// answered ends what began with setting asking. l.mu is held.
func (l *Lease) answered() {
	l.asking = false
	if l.free != nil {
		close(l.free)
		l.free = nil
	}
}

// failed notes that a renewal has failed. l.mu is held.
func (l *Lease) failed(err error) {
	now := driver.Now()
	l.renewErr = err
	if now >= l.deadline() {
		return // its timer ends it in this instant, before or after us
	}
	if !l.fixed {
		pause := max(min(l.ttl/40, l.deadline().Sub(now)/10), time.Millisecond)
		l.renewAt = now.Add(pause + l.client.random.spread(pause))
	}
	refused := errors.Is(err, errors.ErrUnsupported) // by a store that answers: see driver.Grant
	if l.state != Suspect && !refused {
		l.state = Suspect
		l.client.observer.suspect(l, err, l.deadline().Sub(now))
	}
}

// Extend renews the lease now, for ttl from now, and makes ttl the TTL of later
// renewals. A lease with NoRenew is extended in no other way. MaxHold still
// bounds it. The attempt takes at most a sixth of the TTL so far, so that a
// store that hangs does not keep renewals from being tried.
//
// The error is ErrLost or ErrReleased if the lease has ended, and ctx.Err() if
// ctx ends first. After any other error the lease is held as before; one that is
// errors.ErrUnsupported says that the store cannot make its TTL longer.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	ctx = present(ctx)
	err := checkTTL(ttl)
	if err == nil {
		l.check()
		err = l.extend(ctx, ttl)
	}
	if err != nil {
		return l.client.opError(ctx, "extend", l.name, err)
	}
	return nil
}

func (l *Lease) extend(ctx context.Context, ttl time.Duration) error {
	if l.client.guarantees.Expiry {
		if err := l.reserve(ctx); err != nil {
			return err
		}
		ctx, cancel := l.client.untilClose(ctx)
		defer cancel()
		return l.ask(ctx, ttl)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.ttl = ttl
		l.confirmed(driver.Now())
		l.rest()
	}
	return l.cause
}

// reserve sets asking, as soon as no other request is under way.
func (l *Lease) reserve(ctx context.Context) error {
	for {
		l.mu.Lock()
		if l.cause != nil || !l.asking {
			defer l.mu.Unlock()
			l.asking = l.cause == nil
			return l.cause
		}
		if l.free == nil {
			l.free = make(chan struct{})
		}
		free := l.free
		l.mu.Unlock()
		select {
		case <-free:
		case <-l.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// asLost returns the *LostError in err, or one with the given reason.
func asLost(err error, reason driver.Reason) *LostError {
	var lost *LostError
	if errors.As(err, &lost) {
		return lost
	}
	return &LostError{Reason: reason}
}
