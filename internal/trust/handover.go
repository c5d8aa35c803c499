// SPDX-License-Identifier: Apache-2.0

package trust

import "github.com/pawl-go/pawl/driver"

// HandOver ends the lease, which is being released or is idle, and returns the lease of a
// waiter, which has its grant and its trust window from then on. It does nothing and
// returns false if the waiter needs a grant of its own: its Why differs, no tokens are
// left, the turn is over, less than half of its TTL is left (if it renews and the lease is
// not idle, half a second is enough), or it has a MinHold, for which the whole TTL has to
// be left. An idle lease is not handed over once others want it.
func (l *Lease) HandOver(t Terms, now driver.Instant, chance float64) (heir Lease, ok bool) {
	need := t.TTL / 2
	if !t.NoRenew && !l.idle {
		need = min(need, firstNeed)
	}
	fresh := now.Add(need) < l.since.Add(t.TTL-driver.Drift(t.TTL))
	if !l.hasHeirs(now) || t.Why != l.terms.Why || t.TTL > l.terms.TTL || t.MinHold > 0 || !fresh {
		return Lease{}, false
	}
	if l.idle && (l.holds == 0 || !l.alone || now >= l.least) { // it is being given back, or should be
		return Lease{}, false
	}
	heir = Lease{
		terms: t, holds: 1, expires: l.expires, limit: Never, stuck: Never,
		since: l.since, asking: l.asking, asksFor: min(l.asksFor, t.TTL), silent: l.silent, heard: l.heard, took: l.took, tokens: l.tokens - 1, turn: l.turn, alone: l.alone,
		renewAt: l.renewAt, suspectAt: l.suspectAt,
	}
	if t.MaxHold > 0 {
		heir.limit = now.Add(t.MaxHold)
	}
	heir.Report(now)
	if t.TTL != l.terms.TTL || t.NoRenew != l.terms.NoRenew {
		heir.confirm(l.since, now, chance)
		heir.renewSoon(now)
	}
	l.asking = 0
	l.holds = 0 // a Release of what was idle may be on its way: the grant is the heir's
	l.End()
	return heir, true
}

// hasHeirs reports whether the grant may go to another lease without the store.
func (l *Lease) hasHeirs(now driver.Instant) bool {
	return l.tokens > 0 && now < l.turn && now < l.Deadline() && l.state == Held
}

// Lower ends the lease before the store is asked to put a shared one in its place, and returns
// the terms of that, with what is left of MaxHold and MinHold. It does nothing and returns
// false if the lease has ended (its grant may be another lease's by now), or has not one hold.
func (l *Lease) Lower(now driver.Instant) (Terms, bool) {
	if l.cause != nil || l.holds != 1 {
		return Terms{}, false
	}
	t := l.terms
	t.Idle, t.MinHold = 0, max(l.least.Sub(now), 0)
	if l.limit != Never {
		t.MaxHold = max(l.limit.Sub(now), 1)
	}
	l.holds = 0
	l.End()
	return t, true
}
