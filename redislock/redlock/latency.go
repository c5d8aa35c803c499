// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// How long to wait for nodes. Once a quorum has answered, no call waits for the others for longer than a
// grace. Until then it waits for a node as long as the node answers anything: one with many requests
// answers in turn, and a silent one answers none. See silence.go.

const (
	trips    = 4           // round trips that a node may take
	silence  = time.Second // for which a node may answer nothing
	minGrace = 50 * time.Millisecond
	maxGrace = time.Second // what took longer was a server that hung for a while
)

// timeout returns for how long a node may answer nothing while a lease with the TTL needs it: so briefly that
// a renewal can be tried again.
func (d *store) timeout(ttl time.Duration) time.Duration {
	if d.fixed > 0 {
		return min(d.fixed, ttl)
	}
	return min(max(silence, trips*d.trip()), ttl/3)
}

// last returns how long a node that answers other requests may take for one.
func (d *store) last(ttl time.Duration) time.Duration { return max(d.timeout(ttl), ttl/2) }

// graceOf returns how long to wait for the nodes that have not answered when a quorum has.
func (d *store) graceOf(ttl time.Duration) time.Duration {
	if d.fixed > 0 {
		return min(d.fixed, ttl)
	}
	return graceAfter(ttl, trips*d.trip())
}

func graceAfter(ttl, trips time.Duration) time.Duration {
	return min(max(ttl/200, minGrace, min(trips, maxGrace)), ttl/4)
}

// trip returns the round trip to the last node of the nearest quorum, about; 0 if it is not
// known.
func (d *store) trip() time.Duration {
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

// talking reports whether an answer is missing from a node that is not silent.
func (d *store) talking(heard []bool) bool {
	for i, m := range d.members {
		if !heard[i] && !m.quiet() {
			return true
		}
	}
	return false
}

// grace returns how long to wait for the nodes that have not answered: a grace, or only least if
// all of them are silent.
func (d *store) grace(heard []bool, least time.Duration) time.Duration {
	if d.talking(heard) {
		return d.graceOf(d.ttl)
	}
	return least
}

// behind returns the channel that ends the wait for nodes that have not answered, once
// a quorum has.
func (d *store) behind(heard []bool) <-chan time.Time { return time.After(d.grace(heard, 0)) }

// needed is behind for nodes whose votes decide: those that are far away have as long as their answers take.
func (d *store) needed(heard []bool) <-chan time.Time {
	wait := d.grace(heard, 0)
	for i, m := range d.members {
		if d.fixed > 0 || heard[i] || m.quiet() {
			continue
		}
		wait = max(wait, graceAfter(d.ttl, trips*time.Duration(m.trip.Load())))
	}
	return time.After(wait)
}
