// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// The outcomes that every store shares. Package pawl re-exports them.
var (
	// ErrHeld says that others hold the name. A *HeldError says who.
	ErrHeld = errors.New("held by somebody else")

	// ErrLost says that the store has ended the lease. A *LostError says why.
	ErrLost = errors.New("lease lost")

	// ErrReleased says that the lease was released.
	ErrReleased = errors.New("lease released")

	// ErrUnavailable says that the store could not carry out the request, and has recorded nothing.
	ErrUnavailable = errors.New("store unavailable")

	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("the client is closed")

	// ErrDisagree says that a setting of this client differs from what all clients of the store have agreed on.
	ErrDisagree = errors.New("this client disagrees with the store about what all clients have in common")

	// ErrUncertain says that the store may have carried out the request, or may still do so.
	ErrUncertain = errors.New("outcome uncertain")

	// ErrDenied says that the store refuses the user, or a command that a lock needs. It is fs.ErrPermission, and
	// comes with one of the errors above.
	ErrDenied = fs.ErrPermission

	// ErrRefused says that the store has answered, and has refused the request. It comes with ErrUnavailable.
	ErrRefused = errors.New("the store has refused the request")
)

// HeldError is the error of a request for a name that others hold. It is an ErrHeld.
type HeldError struct {
	Info  *Info // nil, or without holders, if the store could not say
	Place int   // the place in the queue of a call that waited: 1 is next; 0 if unknown
}

// Error describes the holder.
func (e *HeldError) Error() string {
	if e.Place > 0 {
		return fmt.Sprintf("%s; place %d in the queue", e.holder(), e.Place)
	}
	return e.holder()
}

func (e *HeldError) holder() string {
	if e.Info == nil || len(e.Info.Holders) == 0 {
		return ErrHeld.Error()
	}
	h := e.Info.Holders[0]
	s := "held by " + h.Holder.String()
	if !h.Acquired.IsZero() {
		s += " for " + Ago(h.Acquired)
	}
	if h.Token != 0 {
		s += fmt.Sprintf(", token %d", h.Token)
	}
	switch n := len(e.Info.Holders); {
	case h.Slots > 0:
		s += fmt.Sprintf(", %d of %d slots taken", n, h.Slots)
	case h.Shared && n > 1:
		s += fmt.Sprintf(", shared with %d more", n-1)
	case h.Shared:
		s += ", shared"
	}
	if h.Why != "" {
		s += fmt.Sprintf(" (why: %s)", h.Why)
	}
	if h.Orphan {
		s += "; that process has ended, what it started goes on and holds it"
	}
	if h.Transaction != nil {
		s += fmt.Sprintf("; that lease has ended, and an open transaction that it guards keeps the name: %v", h.Transaction)
	}
	return s
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// ClosedError is the error of a store that may have forgotten leases, and grants nothing until they have ended. It is
// an ErrUnavailable.
type ClosedError struct {
	Left   time.Duration // for how much longer
	MaxTTL time.Duration // of the store, which bounds Left; 0 if unknown
	SetBy  *Holder       // who has set MaxTTL; nil if unknown
	Do     string        // what to do to end this at once, in one clause; empty if unknown
}

// Error says how long the store stays closed, and why.
func (e *ClosedError) Error() string {
	s := fmt.Sprintf("%v: it has restarted, has lost its data or is another one, and grants nothing for another %v, until leases that it may have forgotten have ended",
		ErrUnavailable, ForPeople(e.Left))
	if e.MaxTTL != 0 {
		s += fmt.Sprintf(" (they last for %v at most", ForPeople(e.MaxTTL))
		if e.SetBy != nil {
			s += ", as set by " + e.SetBy.String()
		}
		s += ")"
	}
	if e.Do != "" {
		s += ": " + e.Do
	}
	return s
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *ClosedError) Is(target error) bool { return target == ErrUnavailable }

// SilentError is the error of a waiter whose store has not answered for a whole TTL, or has refused all requests. It
// is an ErrUnavailable.
type SilentError struct {
	For time.Duration // how long the store has not answered
	Err error         // the error of the last request
}

// Error says how long the store has been silent, and why the last request has failed.
func (e *SilentError) Error() string {
	if e.Err == nil || errors.Is(e.Err, context.DeadlineExceeded) { // which says the same
		return fmt.Sprintf("%v: it has not answered for %v", ErrUnavailable, e.For.Round(time.Millisecond))
	}
	// It does not matter that the outcome of a look is uncertain: nothing that it may
	// have recorded lasts.
	why := strings.TrimPrefix(strings.TrimPrefix(e.Err.Error(), ErrUncertain.Error()+": "), ErrUnavailable.Error()+": ")
	how := "not answered"
	if errors.Is(e.Err, ErrRefused) {
		how = "refused requests"
	}
	return fmt.Sprintf("%v: it has %s for %v: %s", ErrUnavailable, how, e.For.Round(time.Millisecond), why)
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *SilentError) Is(target error) bool { return target == ErrUnavailable }

// UnreadError says that the record of one name could not be read although the store answers. List
// returns the other names, and one UnreadError for each of these, joined.
type UnreadError struct {
	Name string // whose record it is
	Err  error  // why
}

// Error returns the text of Err.
func (e *UnreadError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnreadError) Unwrap() error { return e.Err }

// Unread returns the UnreadErrors in err. only is false if err says more than that.
func Unread(err error) (all []*UnreadError, only bool) {
	switch e := err.(type) {
	case *UnreadError:
		return []*UnreadError{e}, true
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			more, only := Unread(err)
			if !only {
				return nil, false
			}
			all = append(all, more...)
		}
		return all, len(all) > 0
	case interface{ Unwrap() error }:
		return Unread(e.Unwrap())
	}
	return nil, false
}

// SlotsError says that two clients disagree about how many slots a name has.
type SlotsError struct {
	Held   int // slots of the leases that are held
	Wanted int // slots that were asked for
}

// Error says what to do.
func (e *SlotsError) Error() string {
	return fmt.Sprintf("its holders share %d slots, and one of %d was asked for: use the same number everywhere", e.Held, e.Wanted)
}

// Reason says how a lease was lost.
type Reason string

// Reasons.
const (
	Expired Reason = "expired" // not renewed in time
	Broken  Reason = "broken"  // ended by somebody with Break
	Gone    Reason = "gone"    // the store no longer has it
	Limit   Reason = "limit"   // held for as long as MaxHold allows
	Stuck   Reason = "stuck"   // its holder reported no progress for as long as ProgressEvery allows
)

// LostError says why a lease is lost. It is an ErrLost.
type LostError struct {
	Reason Reason  // how the lease was lost
	By     *Holder // who broke the lease; nil if unknown
	Why    string  // the reason that was given to Break
	Err    error   // what the store said, or why the last renewal failed; nil if unknown; errors.Is ignores it

	// Paused, with Expired, is how long at least this process did not run when it had to renew; 0 if it ran.
	Paused time.Duration
}

// Error gives the reason.
func (e *LostError) Error() string {
	s := ErrLost.Error() + ": "
	switch e.Reason {
	case Broken:
		s += "broken"
		if e.By != nil {
			s += " by " + e.By.String()
		}
		if e.Why != "" {
			s += fmt.Sprintf(": %q", e.Why)
		}
	case Expired:
		s += "it was not renewed in time"
		if e.Paused > 0 {
			s += fmt.Sprintf(": this process did not run for %v or more", ForPeople(e.Paused))
		}
	case Limit:
		s += "it was held for as long as MaxHold allows"
	case Stuck:
		s += "its holder reported no progress for as long as ProgressEvery allows"
	default:
		s += "the store no longer has it"
	}
	if e.Err != nil && e.Reason == Expired {
		s += fmt.Sprintf(" (last renewal: %v)", e.Err)
	} else if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }
