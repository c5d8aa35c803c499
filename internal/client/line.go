// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/trust"
)

// maxPlace is the largest place in a line that is counted.
const maxPlace = 1000

// Waiters of this client stand in a line for each name. Package line decides whose turn
// it is. A line exists while a call asks the store, or a lease is held exclusively.
// Client.mu guards it.
type (
	queue = line.Line[*Lease, *waiter]
	place = line.Place[*waiter]
)

type waiter struct {
	name  string
	lease string          // the id of req, if it has one before it has its turn
	holds []driver.Hold   // of req
	req   *driver.Request // whoever hands over may replace it before it sends to turn
	call  Call
	turn  chan *Lease // receives the lease, or nil: ask the store
}

// join lets a call in and puts it in the line for name. It returns the lease if one was
// kept for the call, which has ended then; its place in the line; or nil if the caller is
// to ask the store now.
func (c *Client) join(req *driver.Request, call Call) (*place, *Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, driver.ErrClosed
	}
	ln, kind := c.line(req.Name), call.Kind
	if l := c.reuse(ln, call); l != nil {
		return nil, l, nil
	}
	c.calls.Add(1)
	if l := ln.Holder(); l != nil && l.idle {
		c.returnLater(l)
	}
	if ln.Enter(kind) {
		return nil, nil, nil
	}
	p := &place{Kind: kind, Of: &waiter{name: req.Name, lease: req.Lease, holds: req.Holds, req: req, call: call, turn: make(chan *Lease, 1)}}
	ln.Wait(p)
	return p, nil, nil
}

// line returns the line for name. The caller holds Client.mu.
func (c *Client) line(name string) *queue {
	ln := c.lines[name]
	if ln == nil {
		ln = new(queue)
		c.lines[name] = ln
	}
	return ln
}

// wait waits in the line. It returns the lease that was handed over, or nil if
// the caller has to ask the store. A lease beside an error was handed over in the
// instant in which the caller gave up, and has been given back.
func (c *Client) wait(ctx context.Context, p *place) (*Lease, error) {
	select {
	case l := <-p.Of.turn:
		if err := c.over(ctx); err != nil {
			return c.decline(ctx, p.Of.name, l), err
		}
		return l, nil
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	var given *Lease
	called, why := c.quit(p)
	if called {
		// The waiter was called in the same instant. Give the turn back.
		given = c.decline(ctx, p.Of.name, <-p.Of.turn)
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

// decline gives back what a waiter got in the instant in which it gave up, and returns
// the lease that was, or nil.
func (c *Client) decline(ctx context.Context, name string, l *Lease) *Lease {
	if l == nil {
		c.answered(name)
		return nil
	}
	// If the store does not answer, the client repeats the request.
	_ = l.Release(ctx)
	return l
}

// answered records that a call no longer asks the store for name.
func (c *Client) answered(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[name]
	ln.Answered()
	c.advance(name, ln)
}

// leave takes l, which has ended, out of its line.
func (c *Client) leave(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ln := c.lines[l.grant.name]; ln != nil && ln.Leave(l) {
		c.advance(l.grant.name, ln)
	}
}

// leaveLine takes a waiter that gives up out of its line. It returns how many were
// ahead of the waiter and who has the name, or false if the waiter had been called
// before.
func (c *Client) leaveLine(p *place) (ahead int, holder *Lease, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[p.Of.name] // nil if the waiter was called long ago
	if ahead, ok = ln.Quit(p, maxPlace); !ok {
		return 0, nil, false
	}
	holder = ln.Holder()
	c.advance(p.Of.name, ln) // it may have been in the way
	return ahead, holder, true
}

// advance tells those whose turn it is to ask the store, and removes a line in which
// nothing is left. The caller holds Client.mu.
func (c *Client) advance(name string, ln *queue) {
	for p := ln.Next(); p != nil; p = ln.Next() {
		p.Of.turn <- nil
	}
	if ln.Over() {
		delete(c.lines, name)
	}
}

// settle starts the renewals of l, which was just granted. An exclusive lease also
// enters its line: callers that want one from now on wait for it.
func (c *Client) settle(l *Lease) {
	c.keep(l)
	l.grant.remote.OnLost(func(err error) { l.grant.lose(trust.AsLost(err, driver.Gone)) })
	c.heed(l)
}

func (c *Client) keep(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := l.grant
	if l.asked.Kind == line.Exclusive {
		c.line(g.name).Hold(l)
	}
	if g.next = c.grants; g.next != nil {
		g.next.prev = g
	}
	c.grants = g
	c.sched.Add(&g.item, l.trust.Due())
}

// forget removes g, which has been given back, from the list of open grants.
func (c *Client) forget(g *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		c.grants = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	}
	g.prev, g.next = nil, nil
}

// quit takes a waiter whose context has ended out of its line and returns what it has
// waited for. It does nothing if the line has called the waiter in the same instant.
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
		why := c.store.Look(c.ctx, p.Of.name, c.config.Holder)
		seen, ok := why.(*driver.HeldError)
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
