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
		err = GaveUp(ctx, err)
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
	}
	defer c.answered(req.Name) // deferred, in case the store panics
	if req.Lease == "" {
		req.Lease = participant.NewID()
	}
	if call.Terms.Idle > 0 {
		req.Keeps, req.Renewed = true, false // a claim is too short to be kept
	}
	grant, err := c.participant.Acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return c.lease(req, call, grant), nil
}

// For each name there is a line of the client's own waiters. Package line decides whose
// turn it is. A line exists while a call asks the store, or a lease is held exclusively.
// Client.mu guards it.
type (
	queue = line.Line[*Lease, *waiter]
	place = line.Place[*waiter]
)

type waiter struct {
	req  *driver.Request // does not change before its turn
	call Call
	turn chan *Lease // receives the lease, or nil: ask the store
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
	p := &place{Kind: kind, Of: &waiter{req, call, make(chan *Lease, 1)}}
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

// advance lets the waiters whose turn it is ask the store, and removes an empty line. The
// caller holds Client.mu.
func (c *Client) advance(name string, ln *queue) {
	for p := ln.Next(); p != nil; p = ln.Next() {
		p.Of.turn <- nil
	}
	if ln.Over() {
		delete(c.lines, name)
	}
}

// lease makes the first lease of a grant, and starts its renewals. An exclusive lease becomes the holder in its line:
// callers that come later wait for it.
func (c *Client) lease(req *driver.Request, call Call, remote *participant.Lease) *Lease {
	g := &grant{client: c, remote: remote, name: req.Name, id: remote.ID()}
	terms := trust.Grant{Expires: c.expires, Since: remote.Since(), Recalls: req.Keeps}
	terms.Tokens, terms.Others = remote.Reserved()
	now := driver.Now()
	if took := now.Sub(max(remote.Since(), call.Began)); took > call.Terms.TTL/RoundTrips && c.expires {
		c.measure(req.Name, call.Terms.TTL)
	}
	g.item.Of, g.present = g, &g.first
	g.first = Lease{grant: g, token: driver.Token(remote.Token()), began: now, asked: call.Asked, trust: trust.Begin(call.Terms, terms, now, c.random.chance())}
	c.observer.Acquired(&g.first, now.Sub(call.Began))
	c.enlist(g)
	remote.OnLost(func(err error) { g.lose(trust.AsLost(err, driver.Gone)) })
	if req.Keeps {
		remote.OnWanted(g.wanted)
	}
	return &g.first
}

func (c *Client) enlist(g *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.first.asked.Kind == line.Exclusive {
		c.line(g.name).Hold(&g.first)
	}
	c.grants[g] = struct{}{}
	c.sched.Add(&g.item, g.first.trust.Due())
}
