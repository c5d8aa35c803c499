// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// term is one TTL of a lease: the server began to count it between the two instants. The
// zero term is unknown.
type term struct {
	sent, heard driver.Instant
	ttl         time.Duration
}

// endedBy reports whether the server has certainly ended the lease if its clock was set
// forward by step, as an answer says that came at now. A lease that may still be there is
// left to its renewals.
func (t term) endedBy(step time.Duration, now driver.Instant) bool {
	return step > 0 && t.ttl > 0 && t.heard < now && now.Sub(t.heard) > t.ttl-step
}

// counts returns the instant for Lease.since: a lease that was granted then for ttl is trusted
// until the term ends.
func (t term) counts(ttl time.Duration) driver.Instant {
	return t.end().Add(driver.Drift(ttl) - ttl)
}

// end is when trust in the term ends, as the local clock may run slower than the server's.
func (t term) end() driver.Instant { return t.sent.Add(t.ttl - driver.Drift(t.ttl)) }

// claim is what a message says that hands a name to a waiter: the waiter has the name for the
// claim, and has to ask for more in that time. If the caller does that by renewing, the message
// is the grant, and saves a round trip.
//
// The time of its arrival says nothing: the process may have been stopped, or the message held
// up, until somebody else had the name. So the claim counts from the server's time in the
// message, which the waiter's last look maps to the local clock.
type claim struct {
	at    time.Duration // by the server's clock, since 1970: when the claim began
	lasts time.Duration
	heard driver.Instant // when the message was read
}

// term returns the term that a waiter may trust at now: of the claim, but no more than ttl, as a
// quarantine lasts as long as the longest TTL. It returns false if the waiter has to look: if less
// than half of the claim is left, or if the last look does not say when it began.
func (c claim) term(last look, ttl time.Duration, now driver.Instant) (term, bool) {
	began, ok := c.began(last)
	t := term{began, c.heard, min(c.lasts, ttl)}
	return t, ok && t.end().Sub(now) >= t.ttl/2
}

// began returns an instant that is certainly not after the server began to count the claim, if
// the last look allows that. A message from before that look is about a claim that was over by
// then. If the computed instant is after the arrival, the server's clock was set forward.
func (c claim) began(last look) (driver.Instant, bool) {
	passed := c.at - last.at
	began := last.sent.Add(passed - driver.Drift(passed))
	return began, passed >= 0 && began <= c.heard
}
