// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
	"github.com/pawl-go/pawl/internal/participant"
)

// Package pawl shares these types with its stores. They are aliases because errors.As has to find the error that a
// store has made, and these are the errors and what is in them. Package driver shows their fields.
type (
	// HeldError is ErrHeld with Info, which names the holders, and Place, the caller's place in the queue.
	HeldError = driver.HeldError
	// LostError is ErrLost with Reason; with By and Why, if somebody broke the lease; and with Err, the last failure.
	LostError = driver.LostError
	// ClosedError is ErrUnavailable from a store that may have forgotten leases, and
	// grants nothing until they have ended: in Left. Do says what ends that at once.
	ClosedError = driver.ClosedError
	// SilentError is ErrUnavailable with For, the time for which the store has not answered.
	SilentError = driver.SilentError
	// SlotsError says that the name is held with another number of slots: Held, and Wanted by the caller.
	SlotsError = driver.SlotsError
	// Holder describes the process that holds or waits for a name: User, Host, PID and Command, or Who.
	Holder = driver.Holder
	// Info describes one name: Holders, Waiters and the highest Token.
	Info = driver.Info
	// Held describes one lease in an Info: its Holder, Lease (the id), Token, Why, times and kind.
	Held = driver.Held
	// Waiter describes one waiter in an Info: its Holder, Since when it waits, Why, and what it Holds meanwhile.
	Waiter = driver.Waiter
	// Hold names a lease that a waiter holds: Name and Lease (the id).
	Hold = driver.Hold
	// Transaction describes, in a Held, a transaction that keeps the name after the end of its lease.
	Transaction = driver.Transaction
	// Token is a fencing token: greater than that of every earlier lease on the same
	// name, or 0 if the store has none. Send it along with every write, and have the
	// resource refuse a token smaller than the largest it has seen.
	Token = driver.Token
	// Reason says how a lease was lost, in a LostError.
	Reason = driver.Reason
)

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
	// break, describe, ping or open. It is empty if the error says why a lease has ended.
	Op   string
	Name string // that the lease is on; empty if the operation has none
	Err  error  // the cause
}

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
	why        error // a *HeldError, a *ClosedError or a *participant.RefusedError, or nil
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
	var held *HeldError
	var closed *ClosedError
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
