// SPDX-License-Identifier: Apache-2.0

package pawl

import "fmt"

// Holds returns how often the lease is held: more than once only by Reentrant,
// and 0 once it has been given back.
func (l *Lease) Holds() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.releasing {
		return 0
	}
	return 1 + l.more
}

// again is a call for k under the context of l, which is on the same name. It
// returns l with one more hold, or why it cannot: to wait would be to wait for
// itself, or, behind a writer, for somebody who waits for it. It returns neither
// if l has just ended.
func (l *Lease) again(set settings, k kind) (*Lease, error) {
	now, serves, held := l.hold(set, k)
	if set.reentrant && serves {
		return held, nil
	}
	advice := ""
	switch {
	case now == exclusive && !serves && k == exclusive:
		advice = " (it is being downgraded)"
	case k == exclusive && now == shared:
		advice = " (acquire the exclusive lease first and Downgrade it, or release the shared one before)"
	case !serves:
		advice = " (it is of another kind)"
	case !set.reentrant:
		advice = " (or is it meant to be Reentrant?)"
	}
	return nil, fmt.Errorf("the lease %s of this very context would wait for itself%s: %w", l.id, advice, l.heldError())
}

// hold adds one hold if l serves for k and set has Reentrant. It returns no lease
// if l is being given back. Kind and hold go together: after a Downgrade has begun,
// nobody may come to count on the lease's being exclusive.
func (l *Lease) hold(set settings, k kind) (now kind, serves bool, held *Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = l.kind
	if l.lowered {
		now = shared
	}
	serves = k == now && !(k == exclusive && l.lowering) || k == shared && now == exclusive
	if !set.reentrant || !serves || l.cause != nil || l.releasing {
		return now, serves, nil
	}
	l.more++
	return now, serves, l
}
