// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
)

// Reason says how a lease was lost, in a LostError.
type Reason = driver.Reason

// How a lease was lost.
const (
	ReasonExpired = driver.Expired // it was not renewed in time
	ReasonBroken  = driver.Broken  // somebody called Break
	ReasonGone    = driver.Gone    // the store no longer has it
	ReasonLimit   = driver.Limit   // MaxHold is over
	ReasonStuck   = driver.Stuck   // the holder reported no progress; see ProgressEvery
)

// Outcomes to test for with errors.Is. An error is at most one of them. None hides a context
// error or the cause of a context. The error of a call whose context ended while it waited is
// also ErrHeld if the holder is known, or ErrUnavailable if the store grants nothing at present.
var (
	// ErrHeld means that another caller holds the name. Wait, or give up. See HeldError.
	ErrHeld = driver.ErrHeld
	// ErrLost means that the lease has ended without a Release. Stop, and do not write. See
	// LostError.
	ErrLost = driver.ErrLost
	// ErrReleased means that the holder has given the lease back.
	ErrReleased = driver.ErrReleased
	// ErrUnavailable means that the store did not answer and has certainly recorded no lease.
	// It may have recorded the place of a waiter; the client removes that in the background.
	// A lease that is lost because the store does not answer is ErrLost only.
	ErrUnavailable = driver.ErrUnavailable
	// ErrDenied means that the store refuses this user, for example because of a wrong
	// password or a missing right. It is also fs.ErrPermission. Do not try again.
	ErrDenied = driver.ErrDenied
	// ErrDisagree means that a setting of this client, such as MaxTTL, differs from the one
	// that all clients of the store have agreed on. The error says what to change. Do not try
	// again.
	ErrDisagree = driver.ErrDisagree
	// ErrUncertain means that the answer of the store was lost. After an attempt to acquire,
	// the caller does not hold the name, but the store may have recorded the grant. The client
	// undoes it in the background; until then, or for one TTL, others may have to wait.
	ErrUncertain = driver.ErrUncertain
	// ErrDeadlock means that callers wait for each other in a cycle. Release what you hold, and
	// begin again. See DeadlockError.
	ErrDeadlock = client.ErrDeadlock
	// ErrClosed means that Close of the client was called.
	ErrClosed = driver.ErrClosed
)

// Error is the error of every operation of this package.
type Error struct {
	// Op is acquire, try, extend, downgrade, guard, release, elect, observe, inspect, list,
	// break, describe, ping, open or close. It is empty if the error says what has happened to a lease.
	Op   string
	Name string // that the lease is on; empty if the operation has none
	Err  error  // the cause
}

func wrap(op, name string, err error) error { return &Error{op, name, err} }

// Error returns the operation, the name and the cause in one line.
func (e *Error) Error() string {
	s := e.Op
	if e.Name != "" {
		s = strings.TrimSpace(fmt.Sprintf("%s %q", s, e.Name))
	}
	if s != "" {
		s += ": "
	}
	text := e.Err.Error()
	if doubt := doubts[e.Op]; doubt != "" && errors.Is(e, ErrUncertain) {
		text = strings.Replace(text, ErrUncertain.Error(), ErrUncertain.Error()+": "+doubt, 1)
	}
	return "pawl: " + s + text
}

// doubts are what ErrUncertain means after each operation.
var doubts = map[string]string{
	"acquire":   "the store may have recorded the grant",
	"try":       "the store may have recorded the grant",
	"extend":    "the store may have extended the lease",
	"downgrade": "the store may have either lease, and the client gives both back",
	"release":   "the store may still have the lease",
	"break":     "the lease may have ended",
}

// Unwrap returns the cause, which is one outcome only. If Err is several outcomes, that is the one
// that restricts the caller most: a program that tries again after ErrUnavailable must not do so
// after a lease was lost because the store did not answer.
func (e *Error) Unwrap() error { return client.Only(e.Err) }

// As finds the errors of this package in what a store has returned, for errors.As.
func (e *Error) As(target any) bool {
	switch t := target.(type) {
	case **HeldError:
		return as(e.Err, t, func(d *driver.HeldError) *HeldError { return &HeldError{infoOf(d.Info), d.Place} })
	case **LostError:
		return as(e.Err, t, func(d *driver.LostError) *LostError {
			return &LostError{d.Reason, (*Holder)(d.By), d.Why, d.Err, d.Paused}
		})
	case **ClosedError:
		return as(e.Err, t, func(d *driver.ClosedError) *ClosedError {
			return &ClosedError{d.Left, d.MaxTTL, (*Holder)(d.SetBy), d.Do}
		})
	case **SilentError:
		return as(e.Err, t, func(d *driver.SilentError) *SilentError { return (*SilentError)(d) })
	case **SlotsError:
		return as(e.Err, t, func(d *driver.SlotsError) *SlotsError { return (*SlotsError)(d) })
	}
	return false
}

func as[D, E error](err error, target *E, convert func(D) E) bool {
	d, ok := errors.AsType[D](err)
	if ok {
		*target = convert(d)
	}
	return ok
}
