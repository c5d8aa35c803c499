// SPDX-License-Identifier: Apache-2.0

package participant

import (
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
