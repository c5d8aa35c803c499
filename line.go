// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"container/list"
	"context"

	"github.com/pawl-go/pawl/driver"
)

// maxPasses bounds how often in a row a lease goes from one waiter of this
// client to the next before the waiters of others get their chance.
const maxPasses = 16

// line is where the goroutines of one client wait for one name, in order. It
// exists while somebody is in front: either a lease that is held, or a caller
// that stands in the store's queue for all.
type line struct {
	waiters list.List // of *waiter
	holder  *Lease    // nil while the one in front is at the store
	passes  int       // since the store was asked last
}

type waiter struct {
	req    *driver.Request
	set    settings
	turn   chan *Lease // gets the lease, or nil: go to the front and ask the store
	called bool        // turn has got something, or will at once; guarded by Client.mu
}

// join lets a call in and puts it in the line for name. It returns nil if the
// caller is in front now, and its place otherwise.
func (c *Client) join(req *driver.Request, set settings) (*list.Element, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	c.calls.Add(1)
	ln := c.lines[req.Name]
	if ln == nil {
		c.lines[req.Name] = &line{}
		return nil, nil
	}
	return ln.waiters.PushBack(&waiter{req: req, set: set, turn: make(chan *Lease, 1)}), nil
}

// wait waits in the line. It returns the lease that was passed on, or nil if
// the caller is in front now and has to ask the store.
func (c *Client) wait(ctx context.Context, place *list.Element) (*Lease, error) {
	w := place.Value.(*waiter)
	var err error
	select {
	case l := <-w.turn:
		if err = c.over(ctx); err != nil {
			c.decline(ctx, w.req.Name, l)
			return nil, err
		}
		return l, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.ctx.Done():
		err = errClosed
	}
	c.mu.Lock()
	called := w.called
	if !called {
		c.lines[w.req.Name].waiters.Remove(place)
	}
	c.mu.Unlock()
	if called {
		// It was our turn in the same instant. Put it back.
		c.decline(ctx, w.req.Name, <-w.turn)
	}
	return nil, err
}

// over returns why a call must not go on, or nil.
func (c *Client) over(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return errClosed
	}
	return ctx.Err()
}

// decline gives back what a waiter got in the instant in which it gave up.
func (c *Client) decline(ctx context.Context, name string, l *Lease) {
	if l == nil {
		c.advance(name)
		return
	}
	// If the store cannot be told now, the client goes on telling it.
	_ = l.Release(ctx)
}

// advance calls the next waiter to the front, or ends the line.
func (c *Client) advance(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[name]
	ln.holder, ln.passes = nil, 0
	if w := ln.call(); w != nil {
		w.turn <- nil
	} else {
		delete(c.lines, name)
	}
}

// call takes the next waiter out of the line, or returns nil. Client.mu is held.
func (ln *line) call() *waiter {
	first := ln.waiters.Front()
	if first == nil {
		return nil
	}
	w := ln.waiters.Remove(first).(*waiter)
	w.called = true
	return w
}

// settle puts l, just granted, to the front of its line and begins to watch
// over it. A lease from TryAcquire does not displace a caller that waits at
// the store for the line.
func (c *Client) settle(l *Lease, front bool) {
	c.mu.Lock()
	ln := c.lines[l.name]
	if ln == nil {
		ln, front = &line{}, true
		c.lines[l.name] = ln
	}
	if front {
		ln.holder = l
		l.inLine = true
	}
	if l.next = c.open; l.next != nil {
		l.next.prev = l
	}
	c.open = l
	c.sched.add(l)
	c.mu.Unlock()
	if n, ok := l.grant.(driver.Notifier); ok {
		n.OnLost(func(err error) { l.lose(asLost(err, driver.Gone)) })
	}
}

// forget takes l, which has been given back, out of the list.
func (c *Client) forget(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		c.open = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
}

// handOver ends the grant of a released lease: it passes it on to the next
// waiter of this client if it can, and else gives it back to the store and lets
// the next one ask.
func (c *Client) handOver(ctx context.Context, l *Lease) error {
	if !l.inLine {
		return c.giveBack(ctx, l.grant)
	}
	var next *waiter
	passer, ok := l.grant.(driver.Passer)
	c.mu.Lock()
	ln := c.lines[l.name]
	if ok && ln.passes < maxPasses && !c.closed {
		next = ln.call()
		ln.passes++
	}
	c.mu.Unlock()
	if next == nil {
		err := c.giveBack(ctx, l.grant)
		c.advance(l.name)
		return err
	}
	grant, err := passer.Pass(ctx, next.req)
	if err == nil {
		successor := c.lease(next.req, next.set, grant)
		c.settle(successor, true)
		next.turn <- successor
		return nil
	}
	// The grant is still l's, or its Release undoes what became of it. The waiter
	// keeps its turn and asks the store, under a new id: a release that is
	// repeated late must not take its lease for the one to be undone.
	next.req = renamed(next.req)
	err = c.giveBack(ctx, l.grant)
	c.mu.Lock()
	ln.holder, ln.passes = nil, 0
	c.mu.Unlock()
	next.turn <- nil
	return err
}
