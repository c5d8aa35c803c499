// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// ErrDeadlock says that callers wait for each other in a cycle.
var ErrDeadlock = errors.New("deadlock")

// outcomes are what an error is at most one of, in the order in which they count.
var outcomes = []error{driver.ErrLost, driver.ErrReleased, driver.ErrClosed, driver.ErrDenied, driver.ErrDisagree,
	ErrDeadlock, driver.ErrHeld, driver.ErrUncertain, driver.ErrUnavailable}

// Only returns err, or an error that is only the first of the outcomes that err is.
func Only(err error) error {
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

// Reason returns why a call with the context ctx has failed, for users. It does not pass on how a store reports the
// end of ctx.
func (c *Client) Reason(ctx context.Context, err error) error {
	var known *gaveUpError
	switch {
	case errors.As(err, &known):
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return GaveUp(ctx, nil)
	case c.IsClosed() && (errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrClosed)):
		return driver.ErrClosed // which is what cancelled it
	}
	return err
}

// gaveUpError is the error of a call whose context has ended. It has the context's cause,
// and what the call has waited for, if that is known.
type gaveUpError struct {
	err, cause error
	why        error // a *driver.HeldError, a *driver.ClosedError or a *participant.RefusedError, or nil
}

func (e *gaveUpError) Error() string {
	s := e.err.Error()
	if e.cause != e.err {
		s += " (" + e.cause.Error() + ")"
	}
	if e.why != nil {
		s += ": " + e.why.Error()
	}
	return s
}

func (e *gaveUpError) Unwrap() []error {
	errs := []error{e.err, e.cause}
	if e.why != nil {
		errs = append(errs, e.why)
	}
	return errs
}

// GaveUp returns the error of a call whose context ctx has ended. The error also says what the call has waited for, if
// err, the error of the store, does.
func GaveUp(ctx context.Context, err error) error {
	e := &gaveUpError{err: ctx.Err(), cause: context.Cause(ctx)}
	var held *driver.HeldError
	var closed *driver.ClosedError
	var refused *participant.RefusedError
	switch {
	case errors.As(err, &refused):
		e.why = refused
	case errors.As(err, &held):
		e.why = held
	case errors.As(err, &closed):
		e.why = closed
	}
	return e
}
