// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Term is one TTL of a lease: the server began to count it between the two instants. The
// zero Term is unknown.
type Term struct {
	Sent, Heard driver.Instant
	TTL         time.Duration
}

// Stepped reports whether the server has certainly ended the lease if its clock was set
// forward by step, as an answer says that came at now. A lease that may still be there is
// left to its renewals.
func (t Term) Stepped(step time.Duration, now driver.Instant) bool {
	return step > 0 && t.TTL > 0 && t.Heard < now && now.Sub(t.Heard) > t.TTL-step
}

// Since returns the instant for driver.Answer: a lease that was granted then for ttl is trusted
// until the term ends.
func (t Term) Since(ttl time.Duration) driver.Instant {
	return t.end().Add(driver.Drift(ttl) - ttl)
}

// end is when trust in the term ends, as the local clock may run slower than the server's.
func (t Term) end() driver.Instant { return t.Sent.Add(t.TTL - driver.Drift(t.TTL)) }

// Look is a request that found a name held. It was sent before the server's clock showed At.
type Look struct {
	Sent driver.Instant
	At   time.Duration // since 1970
}

// Claim is what a message says that hands a name to a waiter: the waiter has the name for the
// claim, and has to ask for more in that time. If the caller does that by renewing, the message
// is the grant, and saves a round trip.
//
// The time of its arrival says nothing: the process may have been stopped, or the message held
// up, until somebody else had the name. So the claim counts from the server's time in the
// message, which the waiter's last look maps to the local clock.
type Claim struct {
	At    time.Duration // by the server's clock, since 1970: when the claim began
	For   time.Duration
	Heard driver.Instant // when the message was read
}

// Term returns the term that a waiter may trust at now: of the claim, but no more than ttl, as a
// quarantine lasts as long as the longest TTL. It returns false if the waiter has to look: if less
// than half of the claim is left, or if the last look does not say when it began.
func (c Claim) Term(last Look, ttl time.Duration, now driver.Instant) (Term, bool) {
	began, ok := c.began(last)
	t := Term{began, c.Heard, min(c.For, ttl)}
	return t, ok && t.end().Sub(now) >= t.TTL/2
}

// began returns an instant that is certainly not after the server began to count the claim, if
// the last look allows that. A message from before that look is about a claim that was over by
// then. If the computed instant is after the arrival, the server's clock was set forward.
func (c Claim) began(last Look) (driver.Instant, bool) {
	passed := c.At - last.At
	began := last.Sent.Add(passed - driver.Drift(passed))
	return began, passed >= 0 && began <= c.Heard
}
