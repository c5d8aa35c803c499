// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A service that ends a lease gives the name to the first waiter in the queue and reports that. The looks
// are for cases in which no event comes. All waiters look every Caps.Look, however long the queue, as all
// but one may be paused. The first looks when the name must be free, and the others a little later, so
// that it comes first. A look repeats the request with which the waiter came; the waiter keeps its
// place.
const (
	stagger    = 50 * time.Millisecond // between the looks of the waiters behind the first
	maxStagger = 10                    // waiters that look one after the other

	minIdle  = time.Millisecond      // between looks at a name that is free and is not granted
	minPause = 10 * time.Millisecond // between requests while the store is away
	maxPause = time.Second

	// A waiter that cannot hear polls, and the waiters behind the first do so less often. So does
	// one whose store has no queue.
	pollFirst = 100 * time.Millisecond
	pollMost  = 2 * time.Second

	never = 365 * 24 * time.Hour
)

// next returns after which time a waiter looks again, after an answer that did not grant.
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
			return never // an event comes when it is first
		}
	}
	if free < 0 {
		free = most // nobody knows
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

// sleep returns when it is time to look again, or when the name was handed over.
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

// heard returns that, and takes the name if an event has handed it over.
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
