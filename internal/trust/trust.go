// SPDX-License-Identifier: Apache-2.0

// Package trust decides what a client may believe of a lease: whether it is held still,
// when to renew it, when it ends, and whether its grant may go to the next waiter. It
// only decides. Every method is an event: from what is known of the lease, and the time,
// follow a new state, an action for the caller, and when to look again. There are no
// goroutines, no locks, no timers and no clock here, so that a test can enumerate every
// sequence of events.
//
//	event      what it may lead to
//	---------  --------------------------------------------------------------------
//	Begin      held
//	Look       lost, if the deadline has passed
//	Wake       as Look; suspect, if a confirmation is overdue; a renewal, if one is due
//	Renew      a request to the store, if fewer than two are under way
//	Extend     the same, for another TTL
//	GiveUp     a renewal that Extend was to go before
//	Report     the work is not stuck
//	Answer     held until later; suspect and tried again soon; or lost
//	Lose       lost
//	Keep       no heirs
//	Release    one hold less, or the end, which the caller makes by HandOver or End
//	HandOver   released; the grant is another lease's, the heir
//	Lower      released; the store puts a shared lease in its place
//	Rest       released; the grant is kept until MinHold is over
//	Idle       released; the grant is kept for the next call of this client
//	Wanted     not kept; or, if nobody uses it, given back
//	End        released
//
// A grant goes from lease to lease by HandOver: the store sees one, with the id and the
// record of the first. The last of these leases has the grant. Answers to renewals, and
// news, are about the grant: they are for the lease that has it when they come, whichever
// lease has asked.
package trust

import (
	"errors"
	"math"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// Never is after all instants.
	Never = driver.Instant(math.MaxInt64)

	// How long a client may hand a grant over among its own waiters without telling
	// the store: shortTurn if other clients may be waiting, longTurn if not.
	shortTurn = time.Millisecond
	longTurn  = 4 * time.Millisecond

	// firstNeed is the least time with which a lease that is renewed is handed over.
	firstNeed = 500 * time.Millisecond

	// firstRenewal is when a lease is renewed that began with less than its TTL.
	firstRenewal = 10 * time.Millisecond
)

// ErrOverdue is why a lease is suspect whose renewal has not failed.
var ErrOverdue = errors.New("its renewal is overdue")

// State is where a lease is in its life.
type State int

const (
	Held     State = iota // ours, and confirmed
	Suspect               // ours until the deadline, but a renewal has failed or is overdue
	Lost                  // ended without us
	Released              // given back, or handed over
)

// Terms are what a lease was asked for.
type Terms struct {
	TTL     time.Duration
	NoRenew bool
	MaxHold time.Duration // 0: for ever
	Why     string
	// MinHold is how long the store keeps the grant at least; 0: no longer than the lease.
	MinHold time.Duration
	// Progress is how long the work may report none; 0: for ever.
	Progress time.Duration
	// Idle is for how long the client keeps the grant after Release; 0: not at all.
	Idle time.Duration
}

// Grant is what the store has granted.
type Grant struct {
	Expires bool           // the store ends it when its TTL has passed
	Since   driver.Instant // the store has certainly not begun the TTL before
	Tokens  uint64         // that are reserved for heirs
	Others  bool           // other clients may be waiting
	Recalls bool           // the store tells if others want the name; see Wanted
}

// Lease is what is known of one lease. It is a value: a copy has a life of its own.
type Lease struct {
	terms Terms
	state State
	cause error // why it ended
	limit driver.Instant
	stuck driver.Instant // when the work counts as stuck
	least driver.Instant // the grant is not given back before
	holds int32          // how often it is held; 0 when Release has been called for each

	expires bool // the store ends it when its TTL has passed
	resting bool // it only waits for least
	idle    bool // and its grant may go to the next call of this client until then

	// Of its grant.
	asking  int8           // requests that renew are under way
	asksFor time.Duration  // the TTL that they ask for, or a shorter one that is the same to this lease
	waits   bool           // a call of Extend waits for their end
	silent  driver.Instant // when the first of them was sent since the store last confirmed; 0: there is none
	heard   driver.Instant // when the store last confirmed a renewal
	took    time.Duration  // and how long that took
	since   driver.Instant
	tokens  uint64         // left for heirs
	turn    driver.Instant // there are none from then on
	alone   bool           // nobody else wants the name, or the store would have told

	renewAt   driver.Instant // when to renew, or to try again
	suspectAt driver.Instant // when a missing confirmation is overdue
	failure   error          // of the last renewal, if it failed
}

// Begin returns the first lease of a grant. Chance, here and below, is a random number
// from 0 to 1, without 1.
func Begin(t Terms, g Grant, now driver.Instant, chance float64) Lease {
	l := Lease{terms: t, holds: 1, expires: g.Expires, since: g.Since, tokens: g.Tokens, limit: Never, stuck: Never}
	l.alone = g.Recalls && !g.Others
	switch {
	case l.alone:
		l.turn = now.Add(t.TTL) // others wait no longer for it even if they cannot tell
	case g.Others:
		l.turn = now.Add(shortTurn)
	default:
		l.turn = now.Add(longTurn)
	}
	if t.MaxHold > 0 {
		l.limit = now.Add(t.MaxHold)
	}
	if t.MinHold > 0 {
		l.least = now.Add(t.MinHold)
	}
	l.Report(now)
	l.confirm(g.Since, now, chance)
	l.renewSoon(now)
	return l
}

// Over returns a lease that nobody was granted and that has ended because of err.
func Over(err error) Lease { return Lease{state: Released, cause: err, limit: Never, stuck: Never} }

// State returns the state, without a look at the clock.
func (l *Lease) State() State { return l.state }

// Ended returns why the lease has ended, or nil, without a look at the clock.
func (l *Lease) Ended() error { return l.cause }

// Holds returns how often the lease is held; 0 once it has been given back.
func (l *Lease) Holds() int { return int(l.holds) }

// Deadline returns when the lease ends unless something moves that, or Never.
func (l *Lease) Deadline() driver.Instant { return min(l.limit, l.stuck, l.Window()) }

// Window returns the end of the trust window, or Never.
func (l *Lease) Window() driver.Instant {
	if !l.expires && !l.terms.NoRenew {
		return Never
	}
	return l.since.Add(l.terms.TTL - driver.Drift(l.terms.TTL))
}

// TTL returns the TTL of the last confirmation.
func (l *Lease) TTL() time.Duration { return l.terms.TTL }

// Due returns when the lease has to be woken; Never once it has ended.
func (l *Lease) Due() driver.Instant {
	if l.cause != nil {
		return Never
	}
	due := min(l.Deadline(), l.renewAt)
	if l.state == Held {
		due = min(due, l.suspectAt)
	}
	if l.resting {
		due = min(due, l.least)
	}
	return due
}

// Keep makes sure that the grant is not handed over: it may go on without us. It
// returns false if the lease has ended; its grant may be another lease's then.
func (l *Lease) Keep() bool {
	if l.cause != nil {
		return false
	}
	l.tokens = 0
	return true
}

// Report notes that the work goes on.
func (l *Lease) Report(now driver.Instant) {
	if l.terms.Progress > 0 && l.cause == nil {
		l.stuck = now.Add(l.terms.Progress)
	}
}

// Limit ends the lease at the given time, unless it ends before.
func (l *Lease) Limit(at driver.Instant) { l.limit = min(l.limit, at) }

// end moves the lease to a final state, once. It reports whether it has.
func (l *Lease) end(state State, cause error) bool {
	if l.cause != nil {
		return false
	}
	l.state, l.cause = state, cause
	return true
}

// End ends the lease before the store is told: from now on no late renewal can revive
// it. It reports false if the lease had ended before.
func (l *Lease) End() bool { return l.end(Released, driver.ErrReleased) }

// Lose ends the lease without us. It reports false if the lease had ended before.
func (l *Lease) Lose(cause *driver.LostError) bool { return l.end(Lost, cause) }

// Look loses the lease if its deadline has passed, and reports whether it has.
func (l *Lease) Look(now driver.Instant) bool {
	switch deadline := l.Deadline(); {
	case now < deadline:
		return false
	case deadline == l.limit:
		return l.Lose(&driver.LostError{Reason: driver.Limit})
	case deadline == l.stuck:
		return l.Lose(&driver.LostError{Reason: driver.Stuck})
	}
	return l.Lose(&driver.LostError{Reason: driver.Expired, Err: l.unrenewed(now), Paused: l.paused(now)})
}

// Giving is what a call of Release means.
type Giving int

const (
	Fewer Giving = iota // there was more than one hold
	Last                // the caller has to hand the lease over, or to End it and tell the store
	Again               // somebody else has to, or has
)

// Release takes back one hold.
func (l *Lease) Release() Giving {
	switch l.holds {
	case 0:
		return Again
	case 1:
		l.holds = 0
		return Last
	}
	l.holds--
	return Fewer
}

// Hold adds one hold, unless the lease has ended or is about to be given back.
func (l *Lease) Hold() bool {
	if l.cause != nil || l.holds == 0 {
		return false
	}
	l.holds++
	return true
}
