// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// running is a clock that stops while the process is stopped or the machine suspended: such a pause is no silence of
// the store. The clock ticks while a call waits. If ticks are missing, the process was paused.
type running struct {
	mu      sync.Mutex
	calls   int  // calls that wait
	ticking bool // a tick is due
	last    driver.Instant
	paused  time.Duration  // so far
	before  time.Duration  // without the last pause
	stopped driver.Instant // when that began
}

const (
	tick     = 500 * time.Millisecond
	maxTicks = 2 // a longer gap counts as so many ticks, and the rest as a pause
)

// moment is an instant on the clock running.
type moment struct {
	at     driver.Instant
	paused time.Duration // before it
}

func (m moment) sub(from moment) time.Duration { return m.at.Sub(from.at) }

// begin makes the clock tick until end is called.
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

// now returns the present moment. It is right only between begin and end.
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
	since moment // the first request without an answer was sent then
	away  bool
}

// failed records that a request sent at sent has no answer. It returns a *driver.SilentError if the store has been
// silent for as long as the waiter bears.
func (o *outage) failed(sent, now moment, bears time.Duration, err error) error {
	if !o.away {
		o.away, o.since = true, sent
	}
	if d := now.sub(o.since); d >= bears {
		return &driver.SilentError{For: d, Err: err}
	}
	return nil
}

// refusal is why a store that answers grants a waiter nothing. It may be loading its data, or be out of memory.
type refusal struct {
	err   error
	began moment // before the first request that was refused
}

// RefusedError says that the store refused requests until the context of a wait ended. It is not ErrUnavailable, because
// the attempt may have left something in the store.
type RefusedError struct{ Last error }

func (e *RefusedError) Error() string { return "the store refuses requests: " + e.Last.Error() }

// again records the refusal of a request that was sent at sent.
func (r *refusal) again(sent moment, f driver.Failure) {
	if f.Passing {
		return
	}
	if r.err == nil {
		r.began = sent
	}
	r.err = f.Err
}

// tellRefusal reports a refusal, once a minute for all waiters.
func (p *Participant) tellRefusal(err error) {
	const often = time.Minute
	p.mu.Lock()
	now := driver.Now()
	tell := p.opts.News != nil && (p.toldRefusal == 0 || now.Sub(p.toldRefusal) > often)
	if tell {
		p.toldRefusal = now
	}
	p.mu.Unlock()
	if tell {
		p.opts.News(driver.News{Refused: err})
	}
}
