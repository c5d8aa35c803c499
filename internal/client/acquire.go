// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/trust"
)

// Call is what a call asks for, besides its request to the store.
type Call struct {
	Asked
	Began      driver.Instant
	Terms      trust.Terms
	Reentrant  bool
	Holding    []driver.Hold // leases of the caller that are not in its context
	InDeadlock bool          // wait in a deadlock
}

// Asked is what an observer learns of the call that asked for a lease.
type Asked struct {
	Context context.Context // nil if no observer wants it
	Kind    line.Kind
	Waits   bool      // it is a call of Acquire, and the observer was called with Waiting
	Behind  *Obstacle // nil without a trace
}

// Acquire waits until it has the lease. If it returns both a lease and an error, the lease was handed over just when
// the caller gave up, and has been given back; the observer was told. If ctx has ended, the error is also a
// *driver.HeldError or a *driver.ClosedError, if the client knows what the call waited for.
func (c *Client) Acquire(ctx context.Context, req *driver.Request, call Call) (l *Lease, err error) {
	if leases := LeasesFrom(ctx); len(leases) == 0 && len(call.Holding) == 0 {
		l, err = c.acquire(ctx, req, call)
	} else {
		l, err = c.acquireHolding(ctx, req, call, leases)
	}
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
		err = Left(ctx, err)
	}
	return l, err
}

func (c *Client) acquire(ctx context.Context, req *driver.Request, call Call) (*Lease, error) {
	place, kept, err := c.join(req, call)
	if kept != nil || err != nil {
		return kept, err
	}
	defer c.calls.Done()
	if place != nil {
		l, err := c.wait(ctx, place)
		if l != nil || err != nil {
			return l, err
		}
		req = place.Of.req
	}
	defer c.answered(req.Name) // deferred, in case the store panics
	if req.Lease == "" {
		req.Lease = participant.NewID()
	}
	if call.Terms.Idle > 0 {
		req.Keeps, req.Renewed = true, false // a claim is too short to be kept
	}
	grant, err := c.store.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	l := c.lease(req, call, grant)
	c.settle(l)
	return l, nil
}

// For each name there is a line of the client's own waiters. Package line decides whose
// turn it is. A line exists while a call asks the store, or a lease is held exclusively.
// Client.mu guards it.
type (
	queue = line.Line[*Lease, *waiter]
	place = line.Place[*waiter]
)

type waiter struct {
	name  string
	lease string          // the id in req, if there is one before its turn
	holds []driver.Hold   // of req
	req   *driver.Request // for the store
	call  Call
	turn  chan *Lease // receives the lease, or nil: ask the store
}

// join registers a call and puts it into the line for its name. It returns one of three: a
// kept lease, with which the call ends; a place in the line; or nothing, and the caller
// asks the store now.
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

// answered records that a call no longer asks the store for name.
func (c *Client) answered(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[name]
	ln.Answered()
	c.advance(name, ln)
}

// settle starts the renewals of l, which was just granted. An exclusive lease becomes the
// holder in its line: callers that come later wait for it.
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
