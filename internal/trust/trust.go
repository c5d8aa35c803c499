// SPDX-License-Identifier: Apache-2.0

// Package trust decides until when a client trusts a lease: whether it is still held, when
// to renew it, when it ends, and whether its grant may go to the next waiter. It only
// decides. Each method is an event. From the state of the lease and the time follow a new
// state, an action for the caller, and the time of the next look. There are no
// goroutines, locks, timers or clocks here, so that a test can enumerate every sequence of
// events.
//
//	event      what it may lead to
//	---------  --------------------------------------------------------------------
//	Begin      held
//	Look       lost, if the deadline has passed
//	Wake       as Look; suspect, if a confirmation is overdue; a renewal, if one is due
//	Renew      a request to the store, if fewer than two are under way
//	Extend     the same, for another TTL
//	GiveUp     a renewal that waited for Extend
//	Report     the work is not stuck
//	Answer     held until later; suspect and tried again soon; or lost
//	Lose       lost
//	Bind       the grant is not handed over any more
//	Release    one hold less, or the end, which the caller makes by HandOver or End
//	HandOver   released; the grant is another lease's, the heir
//	Lower      released; the store puts a shared lease in its place
//	Rest       released; the grant is kept until MinHold is over
//	Idle       released; the grant is kept for the next call of this client
//	Wanted     not kept; or, if nobody uses it, given back
//	End        released
//
// By HandOver a grant goes from lease to lease. The store sees one lease, with the id and
// the record of the first; the last one has the grant. The answer to a renewal is about
// the grant: it is for the lease that has the grant when it comes, even if another lease
// has asked.
package trust

import (
	"errors"
	"math"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// Never is later than all other instants.
	Never = driver.Instant(math.MaxInt64)

	// A turn is how long a client may hand a grant over among its own waiters without
	// the store: shortTurn if other clients may be waiting, longTurn if not.
	shortTurn = time.Millisecond
	longTurn  = 4 * time.Millisecond

	// firstNeed is the least trust with which a lease that is renewed is handed over.
	firstNeed = 500 * time.Millisecond

	// firstRenewal is when to renew a lease that began with less than its TTL.
	firstRenewal = 10 * time.Millisecond
)

// ErrOverdue says that a lease is suspect because its renewal is late, not because it failed.
var ErrOverdue = errors.New("its renewal is overdue")

// State is where a lease is in its life.
type State int

const (
	Held     State = iota // confirmed
	Suspect               // held until the deadline, but a renewal has failed or is overdue
	Lost                  // ended without a Release
	Released              // given back, or handed over
)

// Terms are what a call asks for.
type Terms struct {
	TTL     time.Duration
	NoRenew bool
	MaxHold time.Duration // 0: for ever
	Why     string
	// MinHold is how long the name stays taken at least; 0: as long as the lease.
	MinHold time.Duration
	// Progress is how long the work may go on without a Report; 0: for ever.
	Progress time.Duration
	// Idle is how long the client keeps the grant after Release; 0: not at all.
	Idle time.Duration
}

// Grant is what the store has granted.
type Grant struct {
	Expires bool           // the store ends it when its TTL has passed
	Since   driver.Instant // the store began the TTL then or later
	Tokens  uint64         // reserved for heirs
	Others  bool           // other clients may be waiting
	Recalls bool           // the store says when others want the name; see Wanted
}

// Lease is the state of one lease. It is a value: a copy is another lease.
type Lease struct {
	terms Terms
	state State
	cause error          // why it ended
	limit driver.Instant // the end of MaxHold
	stuck driver.Instant // when the work counts as stuck
	least driver.Instant // the grant is not given back before this
	holds int32          // how often it is held; 0 when Release has been called as often

	expires bool // the store ends it when its TTL has passed
	resting bool // parked until least
	idle    bool // parked until least, for the next call of this client

	// About the grant.
	asking  int8           // renewals under way
	asksFor time.Duration  // the TTL that they ask for, or a shorter one that is the same to this lease
	waits   bool           // a call of Extend waits for their end
	silent  driver.Instant // when the first request since the last confirmation was sent; 0: none was
	heard   driver.Instant // when the store last confirmed a renewal
	took    time.Duration  // how long that renewal took
	since   driver.Instant
	tokens  uint64         // left for heirs
	turn    driver.Instant // no more heirs from then on
	alone   bool           // nobody else wants the name: the store would have said so

	renewAt   driver.Instant // when to renew, or to try again
	suspectAt driver.Instant // when a missing confirmation is overdue
	failure   error          // of the last renewal, if it failed
}

// Begin returns the first lease of a grant. chance, here and below, is a random number in
// [0, 1).
func Begin(t Terms, g Grant, now driver.Instant, chance float64) Lease {
	l := Lease{terms: t, holds: 1, expires: g.Expires, since: g.Since, tokens: g.Tokens, limit: Never, stuck: Never}
	l.alone = g.Recalls && !g.Others
	switch {
	case l.alone:
		l.turn = now.Add(t.TTL) // others wait for at most a TTL, even if their wish is lost
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

// State returns the state. Like Ended it goes by the last event, not by the clock.
func (l *Lease) State() State { return l.state }

// Ended returns why the lease has ended, or nil.
func (l *Lease) Ended() error { return l.cause }

// Holds returns how often the lease is held; 0 once it has been given back.
func (l *Lease) Holds() int { return int(l.holds) }

// Deadline returns when the lease ends unless an event moves the deadline, or Never.
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

// Due returns when to call Wake; Never once the lease has ended.
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

// Bind rules out that the grant is handed over without the store, because a transaction or a child
// process may outlast the lease. It returns false if the lease has ended; then another lease may
// have the grant.
func (l *Lease) Bind() bool {
	if l.cause != nil {
		return false
	}
	l.tokens = 0
	return true
}

// Reserves reports whether a token is left for an heir.
func (l *Lease) Reserves() bool { return l.tokens > 0 }

// Report notes that the work goes on.
func (l *Lease) Report(now driver.Instant) {
	if l.terms.Progress > 0 && l.cause == nil {
		l.stuck = now.Add(l.terms.Progress)
	}
}

// Limit ends the lease at the given time, unless it ends before.
func (l *Lease) Limit(at driver.Instant) { l.limit = min(l.limit, at) }

// end moves the lease to a final state. It reports false if the lease had one.
func (l *Lease) end(state State, cause error) bool {
	if l.cause != nil {
		return false
	}
	l.state, l.cause = state, cause
	return true
}

// End ends the lease, before the request to the store, so that no late renewal can revive
// it. It reports false if the lease had ended before.
func (l *Lease) End() bool { return l.end(Released, driver.ErrReleased) }

// Lose ends the lease as lost. It reports false if the lease had ended before.
func (l *Lease) Lose(cause *driver.LostError) bool { return l.end(Lost, cause) }

// Look ends the lease as lost if its deadline has passed, and reports whether it did.
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
	Fewer Giving = iota // other holds are left
	Last                // the caller must hand the lease over, or End it and release it at the store
	Again               // another call does that, or has done it
)

// Release takes one hold back.
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
