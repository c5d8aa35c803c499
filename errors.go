// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// The words that package pawl shares with its stores.
type (
	// Holder says who holds or waits for a name.
	Holder = driver.Holder
	// Info describes one name: its holders, its waiters, its token.
	Info = driver.Info
	// Held is one lease as the store shows it to everybody, in an Info.
	Held = driver.Held
	// Transaction is one that keeps the name of a lease that has ended, in a Held.
	Transaction = driver.Transaction
	// Token is a fencing token: greater than that of every earlier lease on the same
	// name, or 0 if the store has none. Send it along with every write, and have the
	// resource refuse a token smaller than the largest it has seen.
	Token = driver.Token
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
	// Waiter is one who waits for a name, in an Info.
	Waiter = driver.Waiter
	// Hold is a lease that a waiter holds, in a Waiter.
	Hold = driver.Hold
	// Reason says how a lease was lost, in a LostError.
	Reason = driver.Reason
	// SlotsError says that two clients disagree about how many slots a name has.
	SlotsError = driver.SlotsError
)

// How a lease was lost.
const (
	ReasonExpired = driver.Expired // not renewed in time
	ReasonBroken  = driver.Broken  // ended by somebody with Break
	ReasonGone    = driver.Gone    // the store no longer has it
	ReasonLimit   = driver.Limit   // held for as long as MaxHold allows
	ReasonStuck   = driver.Stuck   // no progress was reported; see ProgressEvery
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
	// ErrDenied: the store does not let this user in, as with a wrong password, or lets it
	// do too little. Asking again does not help. If nothing was recorded it is
	// ErrUnavailable, too: a program that tries again after that tests for ErrDenied first.
	// It is fs.ErrPermission.
	ErrDenied = driver.ErrDenied
	// ErrDisagree: this client has another value of a setting, such as MaxTTL, that
	// must be the same for all clients of the store. The error says what to change.
	// Asking again does not help.
	ErrDisagree = driver.ErrDisagree
	// ErrUncertain: the store may have recorded the grant. The name counts as not held.
	// The client undoes the grant in the background; until then, or for one TTL, it may
	// keep others waiting.
	ErrUncertain = driver.ErrUncertain
	// ErrDeadlock: the callers of a circle wait for each other. Release what you hold, and
	// begin again. It is seen of calls with the context of a lease, or one made from it:
	// that says what the caller holds. See DeadlockError.
	ErrDeadlock = errors.New("deadlock")
	// ErrClosed: the client was closed.
	ErrClosed = driver.ErrClosed
)

// Error is the error of every operation of this package.
type Error struct {
	Op   string // acquire, try, hold, extend, downgrade, guard, release, elect, observe, inspect, list, break, describe, open
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
