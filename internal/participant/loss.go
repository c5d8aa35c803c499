// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// loss records why a lease was lost, and the function to call then. Participant.mu guards it.
type loss struct {
	why    *driver.LostError // the first cause; nil while no loss is known
	notify func(error)       // nil before OnLost, and once the holder releases the lease or knows of the loss
}

// tell notes a loss, and calls notify if it is the first.
func (l *loss) tell(why *driver.LostError) {
	if l.why == nil && l.notify != nil {
		go l.notify(why)
	}
	l.note(why)
}

// note notes a loss that the holder knows of, and returns the first one.
func (l *loss) note(why *driver.LostError) *driver.LostError {
	if l.why == nil {
		l.why = why
	}
	l.notify = nil
	return l.why
}

// OnLost makes the participant call f in a goroutine, once, when it learns that the store has ended the lease. If
// it knows that already, it calls f at once.
func (l *Lease) OnLost(f func(error)) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.loss.why != nil {
		go f(l.loss.why)
		return
	}
	l.loss.notify = f
}

// lose notes that the store has ended the lease. The caller holds mu.
func (l *Lease) lose(why *driver.LostError) {
	if l.loss.why != nil || l.state == ended {
		return
	}
	l.forget()
	l.loss.tell(why)
}

// lossOf returns err if it says that a lease is lost.
func lossOf(err error) *driver.LostError {
	var lost *driver.LostError
	switch {
	case errors.As(err, &lost):
		return lost
	case errors.Is(err, driver.ErrLost), errors.Is(err, driver.ErrReleased):
		return &driver.LostError{Reason: driver.Gone}
	}
	return nil
}
