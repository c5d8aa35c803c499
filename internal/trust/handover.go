// SPDX-License-Identifier: Apache-2.0

package trust

import "github.com/pawl-go/pawl/driver"

// HandOver ends the lease, which is being released or is idle, and returns the lease of a
// waiter, which then has its grant and its trust window. It changes nothing and returns
// false if the waiter needs a grant of its own:
//   - its Why differs, or its TTL is longer;
//   - no tokens are left, or the turn is over;
//   - less than half of its TTL is left; half a second is enough for a lease that is
//     renewed, unless the grant is idle;
//   - it has a MinHold, which needs the whole TTL.
//
// An idle lease is not handed over once others want its name.
func (l *Lease) HandOver(t Terms, now driver.Instant, chance float64) (heir Lease, ok bool) {
	need := t.TTL / 2
	if !t.NoRenew && !l.idle {
		need = min(need, firstNeed)
	}
	fresh := now.Add(need) < l.since.Add(t.TTL-driver.Drift(t.TTL))
	if !l.hasHeirs(now) || t.Why != l.terms.Why || t.TTL > l.terms.TTL || t.MinHold > 0 || !fresh {
		return Lease{}, false
	}
	if l.idle && (l.holds == 0 || !l.alone || now >= l.least) { // it is given back, or will be at once
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
	l.holds = 0 // a late Release of an idle lease does nothing: its heir has the grant
	l.End()
	return heir, true
}

// hasHeirs reports whether the grant may go to another lease without the store.
func (l *Lease) hasHeirs(now driver.Instant) bool {
	return l.tokens > 0 && now < l.turn && now < l.Deadline() && l.state == Held
}

// Lower ends the lease, before the store is asked to replace it by a shared one, and returns the
// terms of that one, with what is left of MaxHold and MinHold. It changes nothing and returns
// false if the lease has ended, or does not have exactly one hold.
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
