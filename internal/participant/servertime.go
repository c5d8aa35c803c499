// SPDX-License-Identifier: Apache-2.0

package participant

import (
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

// saw compares the server's time, in microseconds since 1970, with the last reading. The request
// was sent at sent, and the answer came at heard. saw returns by how much the clock was set forward
// in between; negative if it was set back. It reports each step once. news says whether to tell the
// user, which it does once a minute.
func (t *clock) saw(sent, heard driver.Instant, micros int64) (step time.Duration, news bool) {
	next := reading{sent, heard, time.Duration(micros) * time.Microsecond}
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
