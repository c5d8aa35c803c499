// SPDX-License-Identifier: Apache-2.0

package storekit

import "github.com/pawl-go/pawl/driver"

// Loss records how a grant has ended without its holder, and tells the holder, as
// a client wants it. The zero Loss belongs to a grant that is not lost, as far as is known.
// What guards the grant guards it.
type Loss struct {
	why    *driver.LostError
	notify func(error)
}

// Err returns the loss that was noted first, a *driver.LostError, or nil.
func (l *Loss) Err() error {
	if l.why == nil {
		return nil
	}
	return l.why
}

// OnLost makes Tell call f. If the loss was noted before, it calls f at once, in a goroutine.
func (l *Loss) OnLost(f func(error)) {
	if l.why != nil {
		go f(l.why)
		return
	}
	l.notify = f
}

// Tell is Note, and tells the holder, unless the loss was noted before.
func (l *Loss) Tell(why *driver.LostError) {
	if l.why == nil && l.notify != nil {
		go l.notify(why)
	}
	l.Note(why)
}

// Note notes the loss, which is not nil, for a holder that sees it itself, and returns what was
// noted first.
func (l *Loss) Note(why *driver.LostError) *driver.LostError {
	if l.why == nil {
		l.why = why
	}
	l.notify = nil
	return l.why
}

// Hush makes Tell tell nobody: the holder gives the grant back.
func (l *Loss) Hush() { l.notify = nil }
