// SPDX-License-Identifier: Apache-2.0

package storekit

import "github.com/pawl-go/pawl/driver"

// Loss is that a grant has ended without its holder, which may want to be told of that: for
// driver.Notifier. It is guarded by what guards the grant.
type Loss struct {
	Err    *driver.LostError // nil: it is not lost, as far as is known
	notify func(error)
}

// OnLost implements driver.Notifier.
func (l *Loss) OnLost(f func(error)) {
	if l.Err != nil {
		go f(l.Err)
		return
	}
	l.notify = f
}

// Tell is Note, and tells the holder, unless the loss was noted before.
func (l *Loss) Tell(why *driver.LostError) {
	if l.Err == nil && l.notify != nil {
		go l.notify(why)
	}
	l.Note(why)
}

// Note notes the loss for a holder that sees it itself, and returns what was noted first.
func (l *Loss) Note(why *driver.LostError) *driver.LostError {
	if l.Err == nil {
		l.Err = why
	}
	l.notify = nil
	return l.Err
}

// Hush makes Tell tell nobody: the holder gives the grant back.
func (l *Loss) Hush() { l.notify = nil }
