// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// lookWithin bounds the look at who has a name when a call gives up waiting for it:
// nobody is to notice that it takes longer.
const lookWithin = 50 * time.Millisecond

// maxPlace is as far as a place in a line is counted.
const maxPlace = 1000

// leftError is why a call has ended whose context has: with the context's cause, and who
// has the name, if that is known.
type leftError struct {
	err, cause error
	held       *HeldError // or nil
}

func (e *leftError) Error() string {
	s := e.err.Error()
	if e.cause != e.err {
		s += " (" + e.cause.Error() + ")"
	}
	if e.held != nil {
		s += ": " + e.held.Error()
	}
	return s
}

func (e *leftError) Unwrap() []error {
	errs := []error{e.err, e.cause}
	if e.held != nil {
		errs = append(errs, e.held)
	}
	return errs
}

func left(ctx context.Context, held *HeldError) error {
	return &leftError{ctx.Err(), context.Cause(ctx), held}
}

// present takes a missing context for one without an end.
func present(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// patience is a wait at the store.
type patience struct {
	context.Context // for the store
	stop            context.CancelFunc
	held            atomic.Pointer[HeldError] // who was seen to have the name last
}

// patience begins a wait at the store until ctx ends or the client is closed. When ctx ends
// the caller is told who has the name and which place it had. So there is a look first, while it
// has a place, and then the store is told.
func (c *Client) patience(ctx context.Context, req *driver.Request) *patience {
	p := &patience{Context: lent(ctx, c.ctx), stop: func() {}}
	if ctx.Done() == nil {
		return p
	}
	inner, cancel := context.WithCancel(p.Context)
	p.Context = inner
	unwatch := context.AfterFunc(ctx, func() {
		if held := c.look(inner, req.Name); held != nil {
			p.held.Store(held)
		}
		cancel()
	})
	p.stop = func() { unwatch(); cancel() }
	return p
}

// look is one that several calls wait for.
type look struct {
	done chan struct{}
	held *HeldError // set before done is closed; nil if nobody is seen to have the name
}

// look asks the store who has name, and which place this client has in the queue. It does not begin
// when ctx has ended, nor when the client is closed: whoever called it may have returned
// meanwhile (patience.stop does not wait), and Close waits no more for what begins now.
func (c *Client) look(ctx context.Context, name string) *HeldError {
	in, ok := c.driver.(driver.Inspector)
	if !ok {
		return nil
	}
	c.mu.Lock()
	if ctx.Err() != nil || c.closed {
		c.mu.Unlock()
		return nil
	}
	l := c.looks[name]
	if l == nil {
		l = &look{done: make(chan struct{})}
		c.looks[name] = l
		c.background.Go(func() { // a call waits for it, and Close for that
			ctx, cancel := context.WithTimeout(c.ctx, lookWithin)
			defer cancel()
			info, err := in.Inspect(ctx, name)
			if err == nil && len(info.Holders) > 0 {
				l.held = &HeldError{Info: info, Place: c.place(info)}
			}
			c.mu.Lock()
			delete(c.looks, name)
			c.mu.Unlock()
			close(l.done)
		})
	}
	c.mu.Unlock()
	select {
	case <-l.done:
		return l.held
	case <-time.After(lookWithin):
	case <-ctx.Done():
	}
	return nil
}

// place returns the place in the store's queue of the first waiter that is this client, or 0.
func (c *Client) place(info *Info) int {
	for i, w := range info.Waiters {
		if w.Holder == *c.holder {
			return i + 1
		}
	}
	return 0
}

// quit takes a waiter out of its line, whose context has ended, and returns who has the name.
// If it was called in the same instant it does nothing.
func (c *Client) quit(p *place) (called bool, held *HeldError) {
	ahead, holder, ok := c.leaveLine(p)
	if !ok {
		return true, nil
	}
	if holder != nil && holder.Err() == nil {
		held = holder.heldError()
		held.Place = 1
	} else if seen := c.look(c.ctx, p.Of.name); seen != nil {
		behind := *seen // others have seen the same
		held = &behind
		ahead++ // whoever stands in the store's queue for all of us
	}
	if held != nil && held.Place > 0 && ahead < maxPlace {
		held.Place += ahead
	}
	return false, held
}

// gaveUp returns the error of a call whose context has ended, with what the store said last of
// who has the name.
func (p *patience) gaveUp(ctx context.Context) error { return left(ctx, p.held.Load()) }

// saw notes what a store without a queue has answered.
func (p *patience) saw(err error) {
	var held *HeldError
	if errors.As(err, &held) && held.Info != nil && len(held.Info.Holders) > 0 {
		p.held.Store(held)
	}
}
