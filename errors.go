// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
	"github.com/pawl-go/pawl/internal/participant"
)

// HeldError is an ErrHeld that says who holds the name.
type HeldError struct {
	Info  *Info // nil, or without holders, if the store could not say
	Place int   // the place in the queue of a call that waited: 1 is next; 0 if unknown
}

// Error describes the holder.
func (e *HeldError) Error() string {
	d := driver.HeldError{Place: e.Place}
	if e.Info != nil {
		d.Info = new(driver.Info)
		for _, h := range e.Info.Holders {
			d.Info.Holders = append(d.Info.Holders, driver.Held{
				Holder: driver.Holder(h.Holder), Token: h.Token, Why: h.Why, Acquired: h.Acquired, Shared: h.Shared, Slots: h.Slots,
				Orphan: h.Orphan, Transaction: (*driver.Transaction)(h.Transaction),
			})
		}
	}
	return d.Error()
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// LostError is an ErrLost that says why the lease is lost.
type LostError struct {
	Reason Reason  // how the lease was lost
	By     *Holder // who broke the lease; nil if unknown
	Why    string  // the reason that was given to Break
	Err    error   // what the store said, or why the last renewal failed; nil if unknown; errors.Is ignores it

	// Paused, with ReasonExpired, is how long at least this process did not run when it had to
	// renew; 0 if it ran.
	Paused time.Duration
}

// Error gives the reason.
func (e *LostError) Error() string {
	return (&driver.LostError{Reason: e.Reason, By: (*driver.Holder)(e.By), Why: e.Why, Err: e.Err, Paused: e.Paused}).Error()
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// ClosedError is an ErrUnavailable of a store that may have forgotten leases, and grants nothing
// until they have ended.
type ClosedError struct {
	Left   time.Duration // for how much longer
	MaxTTL time.Duration // of the store, which bounds Left; 0 if unknown
	SetBy  *Holder       // who has set MaxTTL; nil if unknown
	Do     string        // what to do to end this at once, in one clause; empty if unknown
}

// Error says how long the store stays closed, and why.
func (e *ClosedError) Error() string {
	return (&driver.ClosedError{Left: e.Left, MaxTTL: e.MaxTTL, SetBy: (*driver.Holder)(e.SetBy), Do: e.Do}).Error()
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *ClosedError) Is(target error) bool { return target == ErrUnavailable }

// SilentError is the ErrUnavailable of a call of Acquire that waits, if the store has not answered
// for a whole TTL, or has refused all requests.
type SilentError struct {
	For time.Duration // how long the store has not answered
	Err error         // the error of the last request
}

// Error says how long the store has been silent, and why the last request has failed.
func (e *SilentError) Error() string { return (*driver.SilentError)(e).Error() }

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *SilentError) Is(target error) bool { return target == ErrUnavailable }

// SlotsError says that the name is held with another number of slots.
type SlotsError struct {
	Held   int // slots of the leases that are held
	Wanted int // slots that were asked for
}

// Error says what to do.
func (e *SlotsError) Error() string { return (*driver.SlotsError)(e).Error() }

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
	ErrDeadlock = errors.New("deadlock")
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
func (e *Error) Unwrap() error { return only(e.Err) }

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

// outcomes are what an error is at most one of, in the order in which they count.
var outcomes = []error{ErrLost, ErrReleased, ErrClosed, ErrDenied, ErrDisagree, ErrDeadlock, ErrHeld, ErrUncertain, ErrUnavailable}

// only returns err, or an error that is only the first of the outcomes that err is.
func only(err error) error {
	for i, first := range outcomes {
		if !errors.Is(err, first) {
			continue
		}
		if slices.ContainsFunc(outcomes[i+1:], func(o error) bool { return errors.Is(err, o) }) {
			return &outcome{err, first}
		}
		break
	}
	return err
}

// outcome shows only one outcome of an error that has several. It has no Unwrap, so
// that errors.Is asks it alone.
type outcome struct {
	error
	is error
}

// Is says yes for what the error is, but for the other outcomes.
func (o *outcome) Is(target error) bool {
	return target == o.is || !slices.Contains(outcomes, target) && errors.Is(o.error, target)
}

// As finds what is in the error.
func (o *outcome) As(target any) bool { return errors.As(o.error, target) }

// opError adds operation and name to err. It does not pass on how a store reports the
// end of ctx.
func (c *Client) opError(ctx context.Context, op, name string, err error) error {
	return opError(ctx, c.core, op, name, err)
}

func opError(ctx context.Context, core *client.Client, op, name string, err error) error {
	var known *leftError
	switch {
	case errors.As(err, &known):
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		err = left(ctx, nil)
	case core.IsClosed() && (errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed)):
		err = ErrClosed // which is what cancelled it
	}
	return &Error{op, name, err}
}

// leftError is the error of a call whose context has ended. It has the context's cause,
// and what the call has waited for, if that is known.
type leftError struct {
	err, cause error
	why        error // a *driver.HeldError, a *driver.ClosedError or a *participant.RefusedError, or nil
}

func (e *leftError) Error() string {
	s := e.err.Error()
	if e.cause != e.err {
		s += " (" + e.cause.Error() + ")"
	}
	if e.why != nil {
		s += ": " + e.why.Error()
	}
	return s
}

func (e *leftError) Unwrap() []error {
	errs := []error{e.err, e.cause}
	if e.why != nil {
		errs = append(errs, e.why)
	}
	return errs
}

func left(ctx context.Context, why error) error {
	return &leftError{ctx.Err(), context.Cause(ctx), why}
}

// waitedFor returns what a call has waited for, if the error of the store says that, or nil.
func waitedFor(err error) error {
	var held *driver.HeldError
	var closed *driver.ClosedError
	var refused *participant.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &held):
		return held
	case errors.As(err, &closed):
		return closed
	}
	return nil
}
