// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// How long a node may take to answer. That matters only if no quorum answers: once one
// has, no call waits for the others. The time is small compared with the TTL, but
// several measured round trips long, as far as that leaves time to use the lease.

const (
	minTimeout = 50 * time.Millisecond // several times what the calls take that a gate lets in at once: no trip has told of them yet
	ungated    = 8                     // times as many renewals may be under way: see maxRenewals of package pawl
	trips      = 4                     // round trips that a node may take
	coldTrips  = 12                    // in the first rounds, as the trips that are known are few, and others may begin at once
	coldRounds = 2
	maxTrips   = time.Second      // which are no longer: what took longer was a server that hung for a while
	probeLimit = 10 * time.Second // the longest round trip that is measured
)

// timeout returns the node timeout for a lease with the TTL.
func (d *Driver) timeout(ttl time.Duration) time.Duration {
	if d.fixed > 0 {
		return min(d.fixed, ttl)
	}
	n := time.Duration(trips)
	if d.rounds.Load() <= coldRounds {
		n = coldTrips
	}
	return nodeTimeout(ttl, n*d.trip())
}

// renewTimeout returns the node timeout of a renewal, for which there is no gate.
func (d *Driver) renewTimeout(ttl time.Duration) time.Duration {
	if d.fixed > 0 {
		return d.timeout(ttl)
	}
	return max(d.timeout(ttl), min(ungated*minTimeout, ttl/4))
}

func nodeTimeout(ttl, trips time.Duration) time.Duration {
	return min(max(ttl/200, minTimeout, min(trips, maxTrips)), ttl/4)
}

// trip returns the round trip to the last node of the nearest quorum, about; 0 if it is not
// known.
func (d *Driver) trip() time.Duration {
	all := make([]time.Duration, len(d.members))
	for i, m := range d.members {
		all[i] = time.Duration(m.trip.Load())
	}
	slices.Sort(all)
	return all[d.quorum-1]
}

// timed records how long a request has taken, if it was answered.
func (m *member) timed(began driver.Instant, err *error) {
	if *err == nil {
		took := int64(driver.Now().Sub(began))
		old := cmp.Or(m.trip.Load(), took)
		m.trip.Store(max(1, old+(took-old)/8))
	}
}

// probe measures the round trips after requests that were given up: their answers may be
// about to come, and the next timeout has to be longer then.
func (d *Driver) probe() {
	if d.fixed > 0 || !d.probing.CompareAndSwap(false, true) {
		return
	}
	d.background(func() {
		defer d.probing.Store(false)
		ctx, cancel := context.WithTimeout(d.ctx, min(d.ttl/4, probeLimit))
		defer cancel()
		answers := make(chan struct{}, len(d.members))
		for _, m := range d.members {
			d.background(func() {
				defer func() { answers <- struct{}{} }()
				began := driver.Now()
				if _, err := m.Read(ctx, nil); err == nil {
					took := driver.Now().Sub(began)
					m.trip.Store(max(int64(took), m.trip.Load()))
				}
			})
		}
		for range d.members {
			select {
			case <-answers:
			case <-ctx.Done():
				return
			}
		}
	})
}

// grace returns how long to wait for the nodes that have not answered: a node timeout,
// or only least if all of them have been silent before.
func (d *Driver) grace(heard []bool, least time.Duration) time.Duration {
	for i, m := range d.members {
		if !heard[i] && !m.quiet() {
			return d.timeout(d.ttl)
		}
	}
	return least
}

// behind returns the channel that ends the wait for nodes that have not answered, once
// a quorum has.
func (d *Driver) behind(heard []bool) <-chan time.Time { return time.After(d.grace(heard, 0)) }
