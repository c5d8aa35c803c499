// SPDX-License-Identifier: Apache-2.0

package trust

import "github.com/pawl-go/pawl/internal/line"

// Kind returns the kind of lease that it is by now.
func (l *Lease) Kind() line.Kind {
	if l.lowered {
		return line.Shared
	}
	return l.terms.Kind
}

// Lower notes that a Downgrade begins, if it may. It may not if the lease has ended
// (its grant may be another lease's by now), or if others hold it too and count on its
// being exclusive.
func (l *Lease) Lower() bool {
	if l.cause != nil || l.holds > 1 && !l.lowering { // whoever has come since it began wants to share
		return false
	}
	l.lowering = true
	return true
}

// Lowered notes that the store has confirmed a Downgrade.
func (l *Lease) Lowered() {
	if l.cause == nil {
		l.lowered = true
	}
}

// Serves reports whether the lease serves a call for k under its context: then both can
// hold it.
func (l *Lease) Serves(k line.Kind) bool {
	now := l.Kind()
	return k == now && !(k == line.Exclusive && l.lowering) || k == line.Shared && now == line.Exclusive
}

// Hold adds one hold if the lease serves for k and has not ended nor is about to be given
// back. After a Downgrade has begun, nobody may come to count on the lease's being
// exclusive.
func (l *Lease) Hold(k line.Kind) bool {
	if !l.Serves(k) || l.cause != nil || l.holds == 0 {
		return false
	}
	l.holds++
	return true
}
