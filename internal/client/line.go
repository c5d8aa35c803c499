// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// maxPlace bounds the counting of places in a line.
const maxPlace = 1000

// wait waits in the line. It returns the lease that was handed over, or nil if the
// caller must ask the store. If it returns both a lease and an error, the lease was
// handed over just when the caller gave up, and has been given back.
func (c *Client) wait(ctx context.Context, p *place) (*Lease, error) {
	select {
	case l := <-p.Of.turn:
		if err := c.over(ctx); err != nil {
			return c.decline(ctx, p.Of.req.Name, l), err
		}
		return l, nil
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	var given *Lease
	called, why := c.quit(p)
	if called {
		// The line called the waiter at the same time. Give the turn back.
		given = c.decline(ctx, p.Of.req.Name, <-p.Of.turn)
	}
	if ctx.Err() != nil && why != nil {
		return given, fmt.Errorf("%w: %w", ctx.Err(), why)
	} else if ctx.Err() != nil {
		return given, ctx.Err()
	}
	return given, driver.ErrClosed
}

// over returns the error of a call that must not go on, or nil.
func (c *Client) over(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// decline gives back the lease or the turn that a waiter got just when it gave up, and
// returns the lease, or nil.
func (c *Client) decline(ctx context.Context, name string, l *Lease) *Lease {
	if l == nil {
		c.answered(name)
		return nil
	}
	// If the store does not answer, the client repeats the request.
	_ = l.Release(ctx)
	return l
}

// leave takes l, which has ended, out of its line.
func (c *Client) leave(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ln := c.lines[l.grant.name]; ln != nil && ln.Leave(l) {
		c.advance(l.grant.name, ln)
	}
}

// leaveLine takes a waiter that gives up out of its line. It returns how many waiters
// were ahead and which lease has the name, or false if the line has called the waiter.
func (c *Client) leaveLine(p *place) (ahead int, holder *Lease, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[p.Of.req.Name] // may be nil if the line has called the waiter
	if ahead, ok = ln.Quit(p, maxPlace); !ok {
		return 0, nil, false
	}
	holder = ln.Holder()
	c.advance(p.Of.req.Name, ln) // the waiter may have been in the way of others
	return ahead, holder, true
}

// quit takes a waiter whose context has ended out of its line, and returns what it waited
// for. If the line has called the waiter at the same time, quit changes nothing.
func (c *Client) quit(p *place) (called bool, why error) {
	ahead, holder, ok := c.leaveLine(p)
	if !ok {
		return true, nil
	}
	var held driver.HeldError
	if holder != nil && holder.Ended() == nil {
		held = *holder.heldError()
		held.Place = 1
	} else {
		why := c.participant.Obstacle(c.ctx, p.Of.req.Name, c.config.Holder)
		seen, ok := why.(*driver.HeldError)
		if !ok {
			return false, why
		}
		held = *seen // a copy, because other calls share the answer
		ahead++      // the call that is in the store's queue for this line
	}
	if held.Place > 0 && ahead < maxPlace {
		held.Place += ahead
	}
	return false, &held
}
