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
	now := l.kindNow()
	serves := k == now || k == shared && now == exclusive
	if set.reentrant && serves {
		if l.hold() {
			return l, nil
		}
		return nil, nil
	}
	advice := ""
	switch {
	case k == exclusive && now == shared:
		advice = " (acquire the exclusive lease first and Downgrade it, or release the shared one before)"
	case !serves:
		advice = " (it is of another kind)"
	case !set.reentrant:
		advice = " (or is it meant to be Reentrant?)"
	}
	return nil, fmt.Errorf("the lease %s of this very context would wait for itself%s: %w", l.id, advice, l.heldError())
}

// hold adds one hold, unless the lease is being given back.
func (l *Lease) hold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil || l.releasing {
		return false
	}
	l.more++
	return true
}
