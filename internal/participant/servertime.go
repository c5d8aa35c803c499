// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// clock compares the wall clock of a server with the local clock. The server ends leases by that clock, and its
// answers show it. If it is set forward, leases end early; if it is set back, late. A new master with another
// time has the same effect.
type clock struct {
	last reading // the next reading is compared with this one
	told driver.Instant
}

// reading is the time that the server showed at some moment between sent and heard.
type reading struct {
	sent, heard driver.Instant
	at          time.Duration // since 1970
}

// step returns by how much the server's clock was set forward between r and next; negative if it was
// set back, 0 if it ran as it should.
func (r reading) step(next reading) time.Duration {
	passed := next.at - r.at
	least, most := next.sent.Sub(r.heard), next.heard.Sub(r.sent)
	allowed := driver.Drift(most)
	switch {
	case passed > most+allowed:
		return passed - most
	case passed < least-allowed:
		return passed - least
	}
	return 0
}

// follows reports whether later readings should be compared with next instead of r. Not at once: a
// clock that runs too fast would hide in the allowance of each comparison. And not if the request of
// next took long, unless r is so old that its drift is as large.
func (r reading) follows(next reading) bool {
	age := next.heard.Sub(r.heard)
	return age > time.Second && next.heard.Sub(next.sent) <= r.heard.Sub(r.sent)+age/100
}

// saw compares the server's time, since 1970, with the last reading. The request
// was sent at sent, and the answer came at heard. saw returns by how much the clock was set forward
// in between; negative if it was set back. It reports each step once. news says whether to tell the
// user, which it does once a minute.
func (t *clock) saw(sent, heard driver.Instant, at time.Duration) (step time.Duration, news bool) {
	next := reading{sent, heard, at}
	if t.last.heard == 0 {
		t.last = next
	} else if sent >= t.last.heard { // otherwise next may be older than last
		if step = t.last.step(next); step != 0 || t.last.follows(next) {
			t.last = next
		}
	}
	if news = step != 0 && (t.told == 0 || heard.Sub(t.told) > time.Minute); news {
		t.told = heard
	}
	return step, news
}

// saw notes the time that a server's clock showed in an answer. If the clock was set forward, it ends the leases
// that the server has certainly ended because of that.
func (p *Participant) saw(c driver.Clock, heard driver.Instant) {
	if c.At == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	server := p.clock(c.Server)
	step, news := server.saw(c.Sent, heard, c.At)
	if step == 0 {
		return
	}
	if news && p.opts.News != nil {
		p.opts.News(driver.News{Server: c.Server, Step: step})
	}
	for _, l := range p.leases {
		if l.state == held && l.clock == server && l.term.endedBy(step, heard) {
			l.lose(&driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("the server's clock was set forward by %v", step.Round(time.Millisecond))})
		}
	}
}

// clock returns the clock of a server. The caller holds mu.
func (p *Participant) clock(server string) *clock {
	c := p.clocks[server]
	if c == nil {
		c = new(clock)
		p.clocks[server] = c
	}
	return c
}

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
