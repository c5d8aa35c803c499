// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
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
			return c.decline(ctx, p.Of.name, l), err
		}
		return l, nil
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	var given *Lease
	called, why := c.quit(p)
	if called {
		// The line called the waiter at the same time. Give the turn back.
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
	ln := c.lines[p.Of.name] // may be nil if the line has called the waiter
	if ahead, ok = ln.Quit(p, maxPlace); !ok {
		return 0, nil, false
	}
	holder = ln.Holder()
	c.advance(p.Of.name, ln) // the waiter may have been in the way of others
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
		why := c.store.Look(c.ctx, p.Of.name, c.config.Holder)
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

// Inspect asks the store about name, and adds what only this client knows: its own waiters, and which lease it keeps.
func (c *Client) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	info, err := c.store.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	info.Waiters = append(info.Waiters, c.waiters(name)...)
	c.showIdle(info)
	return info, nil
}

// List asks the store for the names that begin with prefix, and adds which leases this client keeps.
func (c *Client) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	infos, err := c.store.List(ctx, prefix)
	for _, info := range infos {
		c.showIdle(info)
	}
	return infos, err
}

// waiters describes the waiters for name that have not asked the store.
func (c *Client) waiters(name string) (all []driver.Waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[name]
	if ln == nil {
		return nil
	}
	now, wall := driver.Now(), time.Now().Round(0)
	for p := range ln.All() {
		w := p.Of
		all = append(all, driver.Waiter{
			Holder: *c.config.Holder, Lease: w.lease, Since: wall.Add(w.call.Began.Sub(now)), Why: w.call.Terms.Why,
			Shared: w.call.Kind == line.Shared, Slots: max(0, int(w.call.Kind)), Holds: w.holds, Local: true,
		})
	}
	return all
}
