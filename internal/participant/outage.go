// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// running is a clock that stands still while the process does: it was stopped, or the machine was suspended. A store
// has not been silent in that time. While a call waits, the clock ticks. A gap of several ticks is a pause.
type running struct {
	mu      sync.Mutex
	calls   int  // that wait
	ticking bool // a tick is due
	last    driver.Instant
	paused  time.Duration  // so far
	before  time.Duration  // without the last pause
	stopped driver.Instant // when that began
}

const (
	tick     = 500 * time.Millisecond
	maxTicks = 2 // that a gap counts as
)

// moment is an instant on that clock.
type moment struct {
	at     driver.Instant
	paused time.Duration // before it
}

func (m moment) sub(from moment) time.Duration { return m.at.Sub(from.at) }

// begin makes the clock tick for one call more.
func (r *running) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if !r.ticking {
		r.ticking, r.last = true, driver.Now()
		time.AfterFunc(tick, r.tick)
	}
}

func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
}

func (r *running) tick() {
	r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ticking = r.calls > 0; r.ticking {
		time.AfterFunc(tick, r.tick)
	}
}

// now returns the present moment. Some call waits.
func (r *running) now() moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := driver.Now()
	if gap := now.Sub(r.last); gap > maxTicks*tick {
		r.before, r.stopped = r.paused, r.last.Add(maxTicks*tick)
		r.paused += gap - maxTicks*tick
	}
	r.last = now
	return moment{now.Add(-r.paused), r.paused}
}

// sent returns the moment of an instant that is not before began, and began for an earlier one: the request was not sent. It
// knows of one pause.
func (r *running) sent(at driver.Instant, began moment) moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := moment{at.Add(-r.paused), r.paused}
	if at <= r.stopped {
		m = moment{at.Add(-r.before), r.before}
	}
	if m.at < began.at {
		return began
	}
	return m
}

// StandsStill runs f, and reports whether the process stood still meanwhile.
func StandsStill(f func()) bool {
	var r running
	r.begin()
	defer r.end()
	f()
	return r.now().paused > 0
}

// outage measures for how long a store has not answered a waiter. The zero outage says that the store answers.
type outage struct {
	since moment // when the first request without an answer was sent
	away  bool
}

// failed records that a request that was sent at a moment has no answer. It returns a *driver.SilentError if there has
// been none for as long as the waiter bears that.
func (o *outage) failed(sent, now moment, bears time.Duration, err error) error {
	if !o.away {
		o.away, o.since = true, sent
	}
	if d := now.sub(o.since); d >= bears {
		return &driver.SilentError{For: d, Err: err}
	}
	return nil
}
