// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Early reports whether the lease has a MinHold that is not over: the store is to keep its
// grant. A lost lease is not kept.
func (l *Lease) Early(now driver.Instant) bool {
	return l.cause == nil && now < l.least && now < l.Deadline() && !l.idle
}

// Short returns what is left of MinHold at now, or 0 if the store keeps the grant for that long
// without another renewal, and the TTL of the grant.
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

// Rest ends the lease, which is being released, and returns the one that keeps its grant
// for what is left of MinHold. It does nothing and returns false if there is nothing to
// wait for.
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

// Idle ends the lease, which is being released, and returns the one that keeps its grant
// for the next call of this client, which gets it by HandOver. Nobody has that lease, and
// it is not renewed: if this process ends, the store waits no longer than for a holder. It
// lasts while more than half of the TTL is trusted, and to the end of the turn: a recall
// that is lost does not keep others out for ever. Idle does nothing and returns false if
// the grant is not to be kept.
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

// Wanted notes that others want the name, or may want it. It is a hint: what it does not
// reach ends by itself. From now on the grant is not kept, and goes to other leases only for
// a short time. It reports whether nobody has the lease, so that the caller has to give it
// back.
func (l *Lease) Wanted(now driver.Instant) (unused bool) {
	l.alone = false
	l.turn = min(l.turn, now.Add(shortTurn))
	return l.idle
}
