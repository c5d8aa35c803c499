// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// confirm notes that the store began a TTL at since.
//
// A renewal is due at a third of the TTL, or a little earlier, so that leases acquired
// together do not renew together. It is overdue at two thirds: by then two attempts have
// had no answer.
func (l *Lease) confirm(since, now driver.Instant, chance float64) {
	ttl := l.terms.TTL
	l.since = max(l.since, since)
	l.state = Held
	l.failure = nil
	l.renewAt, l.suspectAt = Never, Never
	if l.expires && !l.terms.NoRenew {
		l.renewAt = l.since.Add(ttl/3 - spread(ttl/30, chance))
		l.suspectAt = l.since.Add(ttl * 2 / 3)
		if l.suspectAt <= now {
			// Little of the TTL was left from the beginning. The renewal comes very soon,
			// and makes the lease suspect if it fails.
			l.suspectAt = Never
		}
	}
}

// renewSoon delays a renewal that is due already, by a few milliseconds: a holder that
// releases within that time saves it.
func (l *Lease) renewSoon(now driver.Instant) {
	if l.renewAt <= now {
		l.renewAt = now.Add(min(firstRenewal, l.Deadline().Sub(now)/8))
	}
}

func spread(d time.Duration, chance float64) time.Duration {
	return time.Duration(float64(d) * chance)
}

// Action is what the caller must do after an event.
type Action struct {
	Lost    bool  // the lease was lost just now: tell contexts and observer
	Suspect error // why the lease became suspect just now: tell the observer
	Renew   bool  // call Renew soon
	Renewed bool  // the store has confirmed the lease: tell the observer
	Over    bool  // MinHold is over: give the grant back
}

// Wake does what is due at now.
func (l *Lease) Wake(now driver.Instant) (do Action) {
	do.Lost = l.Look(now)
	if l.cause != nil {
		return do
	}
	if now >= l.suspectAt && l.state == Held {
		l.state, do.Suspect = Suspect, ErrOverdue
	}
	if now >= l.renewAt {
		l.renewAt = Never
		do.Renew = l.mayAsk(l.terms.TTL) // otherwise the request under way serves as a renewal
	}
	if l.resting && now >= l.least {
		l.resting, do.Over = false, true
	}
	return do
}

// Request is a request to the store that begins a TTL anew.
type Request struct {
	TTL     time.Duration
	Timeout time.Duration // it has failed after this
}

// ErrBusy says that a request cannot begin because another one is under way.
var ErrBusy = errors.New("a request is under way")

// maxAsking is how many requests may be under way at a time. A second one begins while the
// first has no answer: the first may be lost, or only slow.
const maxAsking = 2

// mayAsk reports whether a request for ttl may begin. Beside a request for another TTL none may:
// nobody could say which of the two the store has carried out last. While a call of Extend waits,
// none may either: renewals that overlap would keep Extend out for ever.
func (l *Lease) mayAsk(ttl time.Duration) bool {
	return l.asking == 0 || l.asking < maxAsking && ttl == l.asksFor && !l.waits
}

// Renew begins a renewal that was due. It reports false if none is needed any more.
func (l *Lease) Renew(now driver.Instant) (Request, bool) {
	if l.terms.NoRenew {
		return Request{}, false // the renewal was due for a lease that had the grant before
	}
	r, err := l.request(l.terms.TTL, now)
	return r, err == nil
}

// Extend begins a request for ttl. It returns why the lease has ended, or ErrBusy if another
// request is in the way: then call Extend again when that has ended, or GiveUp. Each request
// that has begun ends with an Answer. If that does not come within a sixth of the TTL, a
// renewal begins beside it.
func (l *Lease) Extend(ttl time.Duration, now driver.Instant) (Request, error) {
	r, err := l.request(ttl, now)
	l.waits = err == ErrBusy && (l.waits || ttl != l.asksFor)
	return r, err
}

// GiveUp notes that a call of Extend no longer waits. It reports whether a renewal is due that has
// waited for it. If other calls of Extend wait, they say so when they try again.
func (l *Lease) GiveUp(now driver.Instant) bool {
	waited := l.waits
	l.waits = false
	if !waited || l.cause != nil || l.renewAt != Never || !l.expires || l.terms.NoRenew {
		return false
	}
	l.renewAt = now
	return true
}

func (l *Lease) request(ttl time.Duration, now driver.Instant) (Request, error) {
	switch {
	case l.cause != nil:
		return Request{}, l.cause
	case !l.mayAsk(ttl):
		return Request{}, ErrBusy
	}
	l.asking++
	l.asksFor = ttl
	if l.silent == 0 {
		l.silent = now
	}
	left := l.Deadline().Sub(now)
	if l.expires && !l.terms.NoRenew {
		l.renewAt = now.Add(max(min(l.terms.TTL/6, l.Window().Sub(now)/3), time.Millisecond))
	}
	// A request has a third of the TTL at most, so that one that hangs leaves time for
	// another.
	return Request{ttl, min(left, max(min(l.terms.TTL/3, left*3/4), 20*time.Millisecond))}, nil
}

// Stretch is Extend for a store whose leases do not expire. It returns why the lease has
// ended, or nil.
func (l *Lease) Stretch(ttl time.Duration, now driver.Instant, chance float64) error {
	if l.cause == nil {
		l.terms.TTL = ttl
		l.confirm(now, now, chance)
	}
	return l.cause
}

// Answer is what has become of a request.
type Answer struct {
	Own   bool           // this lease has asked, not one that had the grant before
	Sent  driver.Instant // when the request began
	TTL   time.Duration  // of the request
	Since driver.Instant // if Err is nil
	Err   error

	GaveUp bool // the caller's context has ended: Err says nothing about the store
}

// Answer ends a request under way, for the lease that has the grant now. ErrLost ends the
// lease as lost. After the end of the lease an answer changes nothing. A failure counts for
// nothing if the store has confirmed a request that ran beside it.
func (l *Lease) Answer(a Answer, now driver.Instant, chance float64) (do Action) {
	l.asking = max(l.asking-1, 0)
	if errors.Is(a.Err, driver.ErrLost) {
		do.Lost = l.Lose(AsLost(a.Err, driver.Gone))
	}
	switch {
	case l.cause != nil:
	case !a.Own && l.terms.NoRenew: // this lease has not asked
	case !a.Own && a.GaveUp: // the caller before gave up, not the store
		l.renewAt = now
	case a.Err != nil:
		do.Suspect = l.fail(a, now, chance)
	case !a.Own && a.TTL < l.terms.TTL: // a shorter TTL than this lease has
		l.renewAt = now
	default:
		l.renewed(a, now, chance)
		do.Renewed = true
	}
	if l.waits {
		l.renewSoon(now) // Extend goes first
	}
	return do
}

// renewed notes that the store has confirmed the lease.
func (l *Lease) renewed(a Answer, now driver.Instant, chance float64) {
	if a.Own {
		l.terms.TTL = a.TTL
	}
	l.silent, l.heard, l.took = 0, now, now.Sub(a.Sent)
	l.confirm(a.Since, now, chance)
	if l.renewAt != Never { // an old Since must not make one renewal follow another at once
		l.renewAt = max(l.renewAt, now.Add(l.Deadline().Sub(now)/16))
	}
}

// fail notes that a request has failed. If that makes the lease suspect, it returns why.
func (l *Lease) fail(a Answer, now driver.Instant, chance float64) error {
	if a.Sent < l.heard && a.TTL == l.terms.TTL { // the store has confirmed one that ran beside it
		if l.renewAt == Never && !l.terms.NoRenew {
			l.renewAt = now // there is room for a request again
		}
		return nil
	}
	l.failure = a.Err
	left := l.Deadline().Sub(now)
	if left <= 0 {
		return nil // Look or Wake ends the lease now
	}
	if !l.terms.NoRenew {
		pause := max(min(l.terms.TTL/40, left/10), time.Millisecond)
		l.renewAt = now.Add(pause + spread(pause, chance))
	}
	refused := errors.Is(a.Err, errors.ErrUnsupported) // the store answers, but cannot give this TTL
	if l.state == Suspect || refused {
		return nil
	}
	l.state = Suspect
	return a.Err
}

// unrenewed returns why the lease was not renewed in time, or nil if no request was sent.
func (l *Lease) unrenewed(now driver.Instant) error {
	if l.silent == 0 {
		return l.failure
	}
	tried := fmt.Sprintf("tried for %v", min(now, l.Deadline()).Sub(l.silent).Round(time.Millisecond))
	if l.took > 0 {
		tried += fmt.Sprintf(", the last answer took %v", l.took.Round(max(time.Microsecond, min(time.Millisecond, l.took/10))))
	}
	if l.failure == nil {
		return errors.New("no answer, " + tried)
	}
	return fmt.Errorf("%s: %w", tried, l.failure)
}

// paused returns how long, at least, this process did not run: an event was due, and Wake was not called. It
// returns 0 for less than a third of the TTL, which leaves time to renew.
func (l *Lease) paused(now driver.Instant) time.Duration {
	late := now.Sub(l.Due())
	if l.terms.NoRenew || late < l.terms.TTL/3 {
		return 0
	}
	return late
}

// AsLost returns the *LostError in err, or one with the given reason.
func AsLost(err error, reason driver.Reason) *driver.LostError {
	var lost *driver.LostError
	if errors.As(err, &lost) {
		return lost
	}
	return &driver.LostError{Reason: reason}
}
