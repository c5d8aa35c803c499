// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Redis expires keys by its wall clock: if that is set forward, leases end early; if it
// is set back, they end late. So replies carry the server's time, which is compared
// with the local clock. A new master whose clock differs from the old one's has the
// same effect.

// reading is the server's time, read between the two instants.
type reading struct {
	sent, heard driver.Instant
	at          time.Duration // since 1970
}

// step returns by how much the server's clock has been set forward between two
// readings; negative if back, 0 if it runs as it should.
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

// follows reports whether later readings should be compared with next. That must not
// change too often, or a clock that runs too fast would hide in the allowance of each
// comparison. And it should not be the answer to a request that took long, unless
// nothing better has come for so long that the drift is as large.
func (r reading) follows(next reading) bool {
	age := next.heard.Sub(r.heard)
	return age > time.Second && next.heard.Sub(next.sent) <= r.heard.Sub(r.sent)+age/100
}

// Saw compares the server's time, in microseconds since 1970, with the reading
// before. The answer came at heard to a request that was sent at sent. It returns
// by how much the clock was set forward since; negative if back. One answer shows
// a step, and only one.
func (s *Server) Saw(sent, heard driver.Instant, micros int64) (step time.Duration) {
	next := reading{sent, heard, time.Duration(micros) * time.Microsecond}
	s.mu.Lock()
	last := s.clock
	if last.heard == 0 {
		s.clock = next
	} else if sent >= last.heard { // else it may be older
		if step = last.step(next); step != 0 || last.follows(next) {
			s.clock = next
		}
	}
	news := step != 0 && heard.Sub(s.told.step) > time.Minute
	if news {
		s.told.step = heard
	}
	s.mu.Unlock()
	if news && s.Stepped != nil {
		s.Stepped(s.Addr, step)
	}
	return step
}
