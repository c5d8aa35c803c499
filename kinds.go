// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/trust"
)

// again serves a call that is made under the context of l, on the same name. It returns
// l with one more hold, or an error if it cannot add one: the caller would wait for
// itself or, behind a writer, for a waiter that waits for the caller. It returns
// neither if l has just ended.
func (l *Lease) again(set settings) (*Lease, error) {
	k := set.kind()
	now, serves, held := l.hold(k, set.reentrant)
	advice := ""
	switch {
	case held:
		return l, nil
	case set.reentrant && serves:
		return nil, nil
	case now == line.Exclusive && !serves && k == line.Exclusive:
		advice = " (it is being downgraded)"
	case k == line.Exclusive && now == line.Shared:
		advice = " (acquire the exclusive lease first and Downgrade it, or release the shared one before)"
	case !serves:
		advice = " (it is of another kind)"
	case !set.reentrant:
		advice = " (or is it meant to be Reentrant?)"
	}
	return nil, fmt.Errorf("the lease %s of this very context would wait for itself%s: %w", l.grant.id, advice, l.heldError())
}

// hold adds one hold if the call is reentrant and l serves for k. It checks the kind
// and adds the hold in one step: once a Downgrade has begun, no caller may rely on an
// exclusive lease.
func (l *Lease) hold(k line.Kind, reentrant bool) (now line.Kind, serves, held bool) {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.trust.Kind(), l.trust.Serves(k), reentrant && l.trust.Hold(k)
}

// kind returns the present kind of l.
func (l *Lease) kind() line.Kind {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.trust.Kind()
}

// lower records that a Downgrade begins, or returns why it may not.
func (l *Lease) lower() error {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if !l.trust.Lower() {
		if cause := l.trust.Ended(); cause != nil {
			return cause
		}
		return errors.New("it is held more than once, and the others count on it as it is: downgrade before it is acquired again")
	}
	return nil
}

// lowered records how a Downgrade has ended.
func (l *Lease) lowered(err error) error {
	if errors.Is(err, ErrLost) {
		l.lose(trust.AsLost(err, driver.Gone))
	}
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if err == nil {
		l.trust.Lowered()
	}
	if cause := l.trust.Ended(); cause != nil {
		return cause
	}
	return err
}
