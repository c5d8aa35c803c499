// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// term is one TTL of a lease. The server began it between sent and heard. The zero term is
// unknown.
type term struct {
	sent, heard driver.Instant
	ttl         time.Duration
}

// endedBy reports whether the server has certainly ended the lease, because its clock was set
// forward by step, as an answer at now has shown. If the lease may still be there, its next
// renewal decides.
func (t term) endedBy(step time.Duration, now driver.Instant) bool {
	return step > 0 && t.ttl > 0 && t.heard < now && now.Sub(t.heard) > t.ttl-step
}

// counts returns the instant for Lease.since: with a TTL of ttl from then on, trust ends with the
// term.
func (t term) counts(ttl time.Duration) driver.Instant {
	return t.end().Add(driver.Drift(ttl) - ttl)
}

// end returns when trust in the term ends. The local clock may run slower than the server's.
func (t term) end() driver.Instant { return t.sent.Add(t.ttl - driver.Drift(t.ttl)) }

// claim is the short time for which a message hands a name to a waiter. The waiter must ask for
// more in that time. If the caller renews its leases, the renewal does that, and the message is
// the grant.
//
// The arrival of the message proves nothing: the process may have been stopped, or the message
// delayed, until another client had the name. So the claim counts from the server's time in the
// message. The waiter's last look, which has the server's time too, maps that to the local clock.
type claim struct {
	at    time.Duration // when the claim began, by the server's clock, since 1970
	lasts time.Duration
	heard driver.Instant // when the message was read
}

// term returns the term of the claim, if the waiter may trust it at now. The term is no longer than
// ttl, because a quarantine may be that short. It returns false if the waiter has to look: less than
// half of the claim is left, or the last look does not tell when it began.
func (c claim) term(last look, ttl time.Duration, now driver.Instant) (term, bool) {
	began, ok := c.began(last)
	t := term{began, c.heard, min(c.lasts, ttl)}
	return t, ok && t.end().Sub(now) >= t.ttl/2
}

// began returns an instant at or before the beginning of the claim. It returns false if the message
// is older than the last look, which shows that the claim is over, or if the instant is after the
// arrival of the message: then the server's clock was set forward.
func (c claim) began(last look) (driver.Instant, bool) {
	passed := c.at - last.at
	began := last.sent.Add(passed - driver.Drift(passed))
	return began, passed >= 0 && began <= c.heard
}
