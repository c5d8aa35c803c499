// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Early reports whether the lease has a MinHold that is not over, so that the store has to
// keep the grant. A lease that has ended is not kept.
func (l *Lease) Early(now driver.Instant) bool {
	return l.cause == nil && now < l.least && now < l.Deadline() && !l.idle
}

// Short returns what is left of MinHold at now, and the TTL of the grant. left is 0 if the store
// keeps the grant long enough without another renewal.
func (l *Lease) Short(now driver.Instant) (left, ttl time.Duration) {
	if l.least > l.since.Add(l.terms.TTL) {
		left = max(l.least.Sub(now), 0)
	}
	return left, l.terms.TTL
}

// Forgo drops MinHold: no work was done under the lease.
func (l *Lease) Forgo() { l.least = 0 }

// Parks reports whether Rest or Idle may keep the grant: the lease has MinHold or KeepIdle.
func (l *Lease) Parks() bool { return l.least > 0 || l.terms.Idle > 0 }

// Rest ends the lease, which is being released, and returns a parked one that keeps its
// grant for the rest of MinHold. It changes nothing and returns false if MinHold is over.
func (l *Lease) Rest(now driver.Instant, chance float64) (rest Lease, ok bool) {
	if !l.Early(now) {
		return Lease{}, false
	}
	rest = *l
	rest.holds, rest.tokens, rest.resting, rest.waits = 1, 0, true, false
	rest.limit, rest.stuck = Never, Never
	if rest.terms.NoRenew = false; l.terms.NoRenew {
		rest.confirm(l.since, now, chance)
	}
	l.asking = 0
	l.End()
	return rest, true
}

// Idle ends the lease, which is being released, and returns a parked one that keeps its
// grant for the next call of this client, which gets it by HandOver. The parked lease is
// not renewed: if this process ends, others wait no longer than after the crash of a
// holder. It ends when half of the TTL is over, or with the turn, so that a lost message of
// others does not keep them out. Idle changes nothing and returns false if the grant is
// not to be kept.
func (l *Lease) Idle(now driver.Instant) (idle Lease, ok bool) {
	half := l.since.Add(l.terms.TTL/2 - driver.Drift(l.terms.TTL))
	until := min(now.Add(l.terms.Idle), l.turn, half)
	if l.idle || !l.alone || !l.hasHeirs(now) || until <= now {
		return Lease{}, false
	}
	idle = *l
	idle.holds, idle.resting, idle.idle, idle.least = 1, true, true, until
	idle.limit, idle.stuck, idle.waits = Never, Never, false
	idle.renewAt, idle.suspectAt, idle.terms.NoRenew = Never, Never, true
	l.asking = 0
	l.End()
	return idle, true
}

// Wanted notes that others want the name, or may want it. It is a hint: a kept grant ends by
// itself without it. From now on the grant is not kept, and is handed over only for a short
// turn. Wanted reports whether the lease is idle; then the caller must give it back.
func (l *Lease) Wanted(now driver.Instant) (unused bool) {
	l.alone = false
	l.turn = min(l.turn, now.Add(shortTurn))
	return l.idle
}
