// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// When a lease ends, the service gives the name to the first waiter and sends it an event. Waiters also look,
// because events may be lost. Each waiter looks every Caps.Look, however long the queue: all others may be
// paused. The first waiter also looks when the name must be free, and the others a little later. A look
// repeats the waiter's request, and keeps its place.
const (
	stagger    = 50 * time.Millisecond // between the looks of the waiters behind the first
	maxStagger = 10                    // the longest delay, in staggers

	minIdle  = time.Millisecond      // between looks at a name that is free but not granted
	minPause = 10 * time.Millisecond // between requests while the store does not answer
	maxPause = time.Second

	// A waiter without events, or without a queue in the store, polls. Waiters behind the first poll less
	// often.
	pollFirst = 100 * time.Millisecond
	pollMost  = 2 * time.Second

	never = 365 * 24 * time.Hour
)

// next returns how long a waiter waits before it looks again, after an answer that did not grant.
func (p *Participant) next(ans driver.Answer) (d time.Duration) {
	if !p.caps.Queue || ans.Session == nil {
		d = min(pollFirst*time.Duration(ans.Rank+1), pollMost)/2 + p.spread(pollFirst)
	} else {
		d = p.pause(ans.Rank, ans.Free, ans.Closed)
	}
	if ans.Again > 0 {
		d = min(d, ans.Again)
	}
	return d
}

// pause is next for a waiter that hears events.
func (p *Participant) pause(rank int, free, closed time.Duration) time.Duration {
	most := p.caps.Look
	if most == 0 {
		if most = never; rank > 0 {
			return never // an event will say that it is first
		}
	}
	if free < 0 {
		free = most // unknown
	} else {
		free = max(free, closed, minIdle)
	}
	if rank == 0 {
		return min(free, most)
	}
	if free += time.Duration(min(rank, maxStagger)) * stagger; free < most {
		return free + p.spread(stagger)
	}
	return most - p.spread(most/4)
}

// sleep waits for d, or until an event asks the waiter to look, or hands the name over.
func (a *attempt) sleep(ctx context.Context, d time.Duration) *driver.Failure {
	until := driver.Now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		heard := a.heard()
		switch {
		case heard.lost:
			return errEnded
		case heard.held, heard.now:
			return nil
		case heard.soon:
			until = min(until, driver.Now().Add(a.p.pause(0, heard.free, 0)))
			timer.Reset(until.Sub(driver.Now()))
		}
		select {
		case <-timer.C:
			return nil
		case <-heard.wake:
			continue
		case <-ctx.Done():
		case <-a.p.ctx.Done():
		}
		return &driver.Failure{Err: a.p.usable(ctx), Maybe: a.p.caps.Queue}
	}
}

// heard is what events have said to a waiter since it looked last.
type heard struct {
	held, now, soon, lost bool
	free                  time.Duration
	wake                  <-chan struct{}
}

// heard returns what events have said, and takes the name if one has handed it over.
func (a *attempt) heard() heard {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	w := a.waiter
	if w == nil {
		return heard{held: a.state == held}
	}
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	h := heard{now: w.now, soon: w.soon, lost: w.lost, free: w.free, wake: w.wake}
	w.now, w.soon = false, false
	if e := w.granted; e != nil {
		w.granted = nil
		h.held = a.take(e)
		h.now = !h.held
	}
	return h
}
