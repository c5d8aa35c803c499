// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Redis expires keys by its wall clock: set forward, it ends leases early, set
// back, late. Each renewal shows how much of the TTL was left in the server's
// eyes, which is compared with what must have been left.

// Term is one TTL of a lease: it began in the server between the two instants.
// The zero Term is one that is not known.
type Term struct {
	Sent, Heard driver.Instant
	TTL         time.Duration
}

// step returns by how much the server's clock has been set forward in the term
// that another followed, if left was left of it then; negative if back, 0 if the
// clock runs as it should.
func (t Term) step(next Term, left time.Duration) time.Duration {
	least := t.TTL - next.Heard.Sub(t.Sent)
	most := t.TTL - next.Sent.Sub(t.Heard)
	allowed := driver.Drift(t.TTL) + 2*time.Millisecond // and what rounding makes of it
	switch {
	case left < least-allowed:
		return least - left
	case left > most+allowed:
		return most - left
	}
	return 0
}

// Compare looks at the clock when next follows last, of which left was left then,
// and tells a step. It returns by how much the clock was set forward if this is
// the first lease that shows it: every lease sees the same step. Then leases of
// which less than that was left have ended.
func (s *Server) Compare(last, next Term, left time.Duration) (forward time.Duration) {
	if last.TTL == 0 {
		return 0
	}
	step := last.step(next, left)
	if step == 0 {
		return 0
	}
	s.mu.Lock()
	if step > 0 && next.Heard.Sub(s.stepped) > 100*time.Millisecond {
		s.stepped = next.Heard
		forward = step
	}
	news := next.Heard.Sub(s.told) > time.Minute
	if news {
		s.told = next.Heard
	}
	s.mu.Unlock()
	if news && s.Log != nil { // not under the lock: a log may block
		s.Log.Warn("redislock: the server's clock was set, or another program has changed the TTL of a lock: leases end early if forward, late if back",
			"forward", step.Round(time.Millisecond), "server", s.Addr)
	}
	return forward
}
