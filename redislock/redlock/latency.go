// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// How long does a call wait for nodes? Once a quorum has answered, it waits for the others only for a
// grace. Until then it waits for a node as long as the node answers any request: a busy node answers
// requests in turn, and a silent node answers none. See silence.go.

const (
	trips    = 4           // round trips that a node may take
	silence  = time.Second // how long a node may answer nothing
	minGrace = 50 * time.Millisecond
	maxGrace = time.Second // a longer round trip was measured while a server hung
)

// timeout returns how long a node may answer nothing to a request about a lease with this TTL. It leaves the
// client the time to try a renewal again.
func (d *store) timeout(ttl time.Duration) time.Duration {
	if d.fixed > 0 {
		return min(d.fixed, ttl)
	}
	return min(max(silence, trips*d.trip()), ttl/3)
}

// last returns how long a node that answers other requests may take for one request.
func (d *store) last(ttl time.Duration) time.Duration { return max(d.timeout(ttl), ttl/2) }

// graceOf returns how long to wait for the other nodes once a quorum has answered.
func (d *store) graceOf(ttl time.Duration) time.Duration {
	if d.fixed > 0 {
		return min(d.fixed, ttl)
	}
	return graceAfter(ttl, trips*d.trip())
}

func graceAfter(ttl, trips time.Duration) time.Duration {
	return min(max(ttl/200, minGrace, min(trips, maxGrace)), ttl/4)
}

// trip returns about the round trip to the farthest node of the nearest quorum, or 0 if it is
// not known.
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

// talking reports whether a node that is not silent has yet to answer.
func (d *store) talking(heard []bool) bool {
	for i, m := range d.members {
		if !heard[i] && !m.quiet() {
			return true
		}
	}
	return false
}

// behind returns how long to wait for the other nodes, once a quorum has answered: not at all if they are silent.
func (d *store) behind(heard []bool) time.Duration {
	if d.talking(heard) {
		return d.graceOf(d.ttl)
	}
	return 0
}

// needed does what behind does, for nodes whose votes decide: a node that is far away has the time that its answers take.
func (d *store) needed(heard []bool) time.Duration {
	wait := d.behind(heard)
	for i, m := range d.members {
		if d.fixed > 0 || heard[i] || m.quiet() {
			continue
		}
		wait = max(wait, graceAfter(d.ttl, trips*time.Duration(m.trip.Load())))
	}
	return wait
}
