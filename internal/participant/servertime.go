// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// clock compares the wall clock of a server, by which it ends leases and which its answers carry, with the local
// clock. If it is set forward leases end early; if it is set back they
// end late. A new master whose clock differs from the old one's has the same effect.
type clock struct {
	last reading // that the next one is compared with
	told driver.Instant
}

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

// saw compares the server's time, in microseconds since 1970, with the reading
// before. The answer came at heard to a request that was sent at sent. It returns
// by how much the clock was set forward since; negative if back. One answer shows
// a step, and only one. news reports whether it should be told of: once a minute.
func (t *clock) saw(sent, heard driver.Instant, micros int64) (step time.Duration, news bool) {
	next := reading{sent, heard, time.Duration(micros) * time.Microsecond}
	if t.last.heard == 0 {
		t.last = next
	} else if sent >= t.last.heard { // else it may be older
		if step = t.last.step(next); step != 0 || t.last.follows(next) {
			t.last = next
		}
	}
	if news = step != 0 && (t.told == 0 || heard.Sub(t.told) > time.Minute); news {
		t.told = heard
	}
	return step, news
}
