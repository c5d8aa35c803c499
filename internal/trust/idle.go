// SPDX-License-Identifier: Apache-2.0

package trust

import "github.com/pawl-go/pawl/driver"

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
