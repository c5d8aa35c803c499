// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"container/list"
	"context"

	"github.com/pawl-go/pawl/driver"
)

// kind is what a request asks for: exclusive, shared, or one of so many slots.
type kind int

const (
	exclusive kind = 0
	shared    kind = -1
)

func kindOf(req *driver.Request) kind {
	if req.Shared {
		return shared
	}
	return kind(req.Slots)
}

// line is where the goroutines of one client wait for one name, in order. It
// exists while one of them asks the store, or holds an exclusive lease.
//
// The first of them asks the store as soon as all that came before it have got
// what they wanted, even if that is held still: so a writer behind readers of
// its own client has a place in the store's queue, where readers of others
// cannot overtake it. If it is a reader, so do the readers behind it: in which
// order they arrive at the store does not matter, as they are granted together.
// Those who want slots go one by one, since one of them may be the last.
//
// Only who wants an exclusive lease behind one that is held does not ask: it
// gets that lease when it is released; see tenure.
type line struct {
	waiters list.List // of *waiter
	holder  *Lease    // the exclusive lease, if one is held
	asking  int32     // calls that are at the store
	passes  int32     // by the store, since somebody asked it last
	kind    kind      // what those at the store ask for
}

type waiter struct {
	name   string
	req    *driver.Request // whoever calls the waiter may put another in its place
	set    settings
	turn   chan *Lease // gets the lease, or nil: go and ask the store
	called bool        // turn has got something, or will at once; guarded by Client.mu
}

// join lets a call in and puts it in the line for name. It returns nil if the
// caller is to ask the store now, and its place otherwise.
func (c *Client) join(req *driver.Request, set settings) (*list.Element, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	c.calls.Add(1)
	ln := c.line(req.Name)
	if k := kindOf(req); ln.waiters.Len() == 0 && ln.admits(k) {
		ln.ask(k)
		return nil, nil
	}
	return ln.waiters.PushBack(&waiter{name: req.Name, req: req, set: set, turn: make(chan *Lease, 1)}), nil
}

// line returns the line for name. Client.mu is held.
func (c *Client) line(name string) *line {
	ln := c.lines[name]
	if ln == nil {
		ln = &line{}
		c.lines[name] = ln
	}
	return ln
}

// admits reports whether the first who waits may ask the store for k.
func (ln *line) admits(k kind) bool {
	if ln.asking == 0 {
		return k != exclusive || ln.holder == nil
	}
	return k == shared && ln.kind == shared
}

func (ln *line) ask(k kind) {
	ln.asking++
	ln.kind = k
}

// wait waits in the line. It returns the lease that was passed on, or nil if
// the caller has to ask the store.
func (c *Client) wait(ctx context.Context, place *list.Element) (*Lease, error) {
	w := place.Value.(*waiter)
	select {
	case l := <-w.turn:
		if err := c.over(ctx); err != nil {
			c.decline(ctx, w.name, l)
			return nil, err
		}
		return l, nil
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	called, held := c.quit(place)
	if called {
		// It was our turn in the same instant. Put it back.
		c.decline(ctx, w.name, <-w.turn)
	}
	if ctx.Err() != nil {
		return nil, left(ctx, held)
	}
	return nil, ErrClosed
}

// over returns why a call must not go on, or nil.
func (c *Client) over(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

// decline gives back what a waiter got in the instant in which it gave up.
func (c *Client) decline(ctx context.Context, name string, l *Lease) {
	if l == nil {
		c.answered(name)
		return
	}
	// If the store cannot be told, the client goes on telling it.
	_ = l.Release(ctx)
}

// answered ends a call's asking at the store.
func (c *Client) answered(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[name]
	ln.asking--
	c.advance(name, ln)
}

// leave takes l, which is exclusive no more, out of its line.
func (c *Client) leave(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ln := c.lines[l.name]; ln != nil && ln.holder == l {
		ln.holder, ln.passes = nil, 0
		c.advance(l.name, ln)
	}
}

// advance sends to the store those whose turn it is, and ends a line in which
// nothing is left. Client.mu is held.
func (c *Client) advance(name string, ln *line) {
	for first := ln.waiters.Front(); first != nil; first = ln.waiters.Front() {
		k := kindOf(first.Value.(*waiter).req)
		if !ln.admits(k) {
			break
		}
		ln.ask(k)
		ln.call(first).turn <- nil
	}
	if ln.asking == 0 && ln.holder == nil {
		delete(c.lines, name)
	}
}

// call takes a waiter out of the line. Client.mu is held.
func (ln *line) call(place *list.Element) *waiter {
	w := ln.waiters.Remove(place).(*waiter)
	w.called = true
	return w
}

// settle begins to watch over l, just granted, and puts it in its line if it is
// exclusive: who wants such a lease now waits for this one.
func (c *Client) settle(l *Lease) {
	c.mu.Lock()
	if l.kind == exclusive {
		c.line(l.name).holder = l
	}
	if l.next = c.open; l.next != nil {
		l.next.prev = l
	}
	c.open = l
	c.sched.add(l)
	c.mu.Unlock()
	if n, ok := l.grant.(driver.Notifier); ok {
		n.OnLost(func(err error) { l.loseGrant(asLost(err, driver.Gone)) })
	}
}

// replace puts h into the place of l, whose grant it has got, in the list. Client.mu
// is held.
func (c *Client) replace(l, h *Lease) {
	h.prev, h.next = l.prev, l.next
	if h.prev != nil {
		h.prev.next = h
	} else {
		c.open = h
	}
	if h.next != nil {
		h.next.prev = h
	}
	l.prev, l.next = nil, nil
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
