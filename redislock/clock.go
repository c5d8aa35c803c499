// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Redis expires keys by its wall clock: set forward, it ends leases early, set
// back, late. Each renewal shows how much of the TTL was left in the server's
// eyes, which is compared with what must have been left.

// term is one TTL of a lease: it began in the server between the two instants.
type term struct {
	sent, heard driver.Instant
	ttl         time.Duration
}

// step returns by how much the server's clock has been set forward in the term
// that another followed, if left was left of it then; negative if back, 0 if the
// clock runs as it should.
func (t term) step(next term, left time.Duration) time.Duration {
	least := t.ttl - next.heard.Sub(t.sent)
	most := t.ttl - next.sent.Sub(t.heard)
	allowed := driver.Drift(t.ttl) + 2*time.Millisecond // and what rounding makes of it
	switch {
	case left < least-allowed:
		return least - left
	case left > most+allowed:
		return most - left
	}
	return 0
}

// renewed notes the term that a renewal has begun, and looks at the clock.
func (g *grant) renewed(next term, left time.Duration) {
	s := g.s
	s.mu.Lock()
	step, news := g.look(next, left)
	s.mu.Unlock()
	if news && s.log != nil { // not under the lock: a log may block
		s.log.Warn("redislock: the server's clock was set, or another program has changed the TTL of a lock: leases end early if forward, late if back",
			"forward", step.Round(time.Millisecond), "server", s.addr)
	}
}

// look returns the step that a renewal shows, and whether it is news: every lease
// sees the same step, and the first that does speaks for all. store.mu is held.
func (g *grant) look(next term, left time.Duration) (step time.Duration, news bool) {
	s, last := g.s, g.term
	if left < next.ttl { // else the server goes on with the term before
		g.term = next
	}
	if last.ttl == 0 { // the answer to the renewal before was lost
		return 0, false
	}
	step = last.step(next, left)
	if step == 0 {
		return 0, false
	}
	if step > 0 && next.heard.Sub(s.stepped) > 100*time.Millisecond {
		s.stepped = next.heard
		s.setForward(next.heard, step)
	}
	if news = next.heard.Sub(s.told) > time.Minute; news {
		s.told = next.heard
	}
	return step, news
}

// setForward ends the leases of this participant that the server must have ended
// early. The others are renewed before their end. store.mu is held.
func (s *store) setForward(now driver.Instant, step time.Duration) {
	for _, g := range s.grants {
		t := g.term
		if t.ttl > 0 && t.heard < now && now.Sub(t.heard) > t.ttl-step {
			g.lose(&driver.LostError{Reason: driver.Expired, Err: fmt.Errorf("the server's clock was set forward by %v", step.Round(time.Millisecond))})
		}
	}
}
