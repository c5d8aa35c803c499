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
	// SilentError is ErrUnavailable of a store that has answered a waiter before and
	// then has not answered for one TTL. It says for how long.
	SilentError = driver.SilentError
	// SlotsError says that two clients disagree about how many slots a name has.
	SlotsError = driver.SlotsError
)

// Outcomes to test for with errors.Is. They never hide a context error or the context's
// cause. The error of a call that gave up waiting because its context ended is also
// ErrHeld if the holder is known.
var (
	// ErrHeld: somebody else holds the name. Wait, or give up. See HeldError.
	ErrHeld = driver.ErrHeld
	// ErrLost: the lease ended although its holder did not release it. Stop; do not
	// write. See LostError.
	ErrLost = driver.ErrLost
	// ErrReleased: the holder gave the lease back.
	ErrReleased = driver.ErrReleased
	// ErrUnavailable: the store did not answer and certainly recorded no lease. It may
	// have recorded the place of a waiter (see SilentError); the client removes that in
	// the background.
	ErrUnavailable = driver.ErrUnavailable
	// ErrDisagree: this client has another value of a setting, such as MaxTTL, that
	// must be the same for all clients of the store. The error says what to change.
	// Asking again does not help.
	ErrDisagree = driver.ErrDisagree
	// ErrUncertain: the store may have recorded the grant. The name counts as not held.
	// The client undoes the grant in the background; until then, or for one TTL, it may
	// keep others waiting.
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
