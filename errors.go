// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// The words that package pawl shares with its stores.
type (
	// Holder says who holds or waits for a name.
	Holder = driver.Holder
	// Info describes one name: its holders, its waiters, its token.
	Info = driver.Info
	// Guarantees is what a store can promise.
	Guarantees = driver.Guarantees
	// HeldError is ErrHeld with what is known of the holder.
	HeldError = driver.HeldError
	// LostError is ErrLost with the reason.
	LostError = driver.LostError
	// ClosedError is ErrUnavailable of a store that may have forgotten leases, and
	// grants nothing until they have ended.
	ClosedError = driver.ClosedError
	// StoreInfo is how a store is; see Client.Store.
	StoreInfo = driver.StoreInfo
	// SilentError is ErrUnavailable of a store that has answered a waiter before, and
	// then has not for one TTL. It says for how long.
	SilentError = driver.SilentError
	// SlotsError says that two clients disagree about how many slots a name has.
	SlotsError = driver.SlotsError
)

// Outcomes to test for with errors.Is. Context errors are never hidden behind one of
// them, and so is the context's cause. A call that gave up waiting because its context
// ended is ErrHeld, too, if it is known who has the name.
var (
	// ErrHeld: somebody else has it. Wait, or give up. See HeldError.
	ErrHeld = driver.ErrHeld
	// ErrLost: the lease ended without us. Stop; do not write. See LostError.
	ErrLost = driver.ErrLost
	// ErrReleased: we gave it back.
	ErrReleased = driver.ErrReleased
	// ErrUnavailable: the store did not answer, and certainly recorded nothing, but for
	// the place of a waiter (see SilentError), which is cleaned up in the background.
	ErrUnavailable = driver.ErrUnavailable
	// ErrDisagree: what all clients of the store have to have in common is not what this one
	// was given, such as MaxTTL. The error says what to change. Asking again does not help.
	ErrDisagree = driver.ErrDisagree
	// ErrUncertain: the store may have recorded the grant. It counts as not
	// held, is cleaned up in the background, and may keep others waiting until
	// that is done or one TTL has passed.
	ErrUncertain = driver.ErrUncertain
	// ErrClosed: the client was closed.
	ErrClosed = driver.ErrClosed
)

// Error is the error of every operation of this package.
type Error struct {
	Op   string // acquire, try, hold, extend, downgrade, release, elect, inspect, list, break, open
	Name string // of the lock; empty if the operation has none
	Err  error
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("pawl: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("pawl: %s %q: %v", e.Op, e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
