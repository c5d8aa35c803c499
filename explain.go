// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
)

// maxPlace is the largest place in a line that is counted.
const maxPlace = 1000

// leftError is the error of a call whose context has ended. It has the context's cause,
// and what the call has waited for, if that is known.
type leftError struct {
	err, cause error
	why        error // a *HeldError or a *ClosedError, or nil
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

// present replaces a nil context by one without an end.
func present(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// waited returns the error of a call whose context has ended, from that of the store, which may say what the call has
// waited for.
func waited(ctx context.Context, err error) error {
	var held *HeldError
	var closed *ClosedError
	switch {
	case errors.As(err, &held):
		return left(ctx, held)
	case errors.As(err, &closed):
		return left(ctx, closed)
	}
	return left(ctx, nil)
}

// quit takes a waiter whose context has ended out of its line and returns what it has
// waited for. It does nothing if the line has called the waiter in the same instant.
func (c *Client) quit(p *place) (called bool, why error) {
	ahead, holder, ok := c.leaveLine(p)
	if !ok {
		return true, nil
	}
	var held HeldError
	if holder != nil && holder.Err() == nil {
		held = *holder.heldError()
		held.Place = 1
	} else {
		why := c.store.Look(c.ctx, p.Of.name, c.holder)
		seen, ok := why.(*HeldError)
		if !ok {
			return false, why
		}
		held = *seen // a copy: other calls share what was seen
		ahead++      // the call that stands in the store's queue for this line
	}
	if held.Place > 0 && ahead < maxPlace {
		held.Place += ahead
	}
	return false, &held
}
