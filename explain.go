// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// lookWithin bounds the time in which a call that gives up waiting looks for the holder
// of the name. The caller should not notice the delay.
const lookWithin = 50 * time.Millisecond

// maxPlace is the largest place in a line that is counted.
const maxPlace = 1000

// leftError is the error of a call whose context has ended. It has the context's cause,
// and the holder of the name if that is known.
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

// present replaces a nil context by one without an end.
func present(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// patience is the context of one wait at the store.
type patience struct {
	context.Context // for the store
	stop            context.CancelFunc
	held            atomic.Pointer[HeldError] // the holder that was seen last
}

// patience begins a wait at the store until ctx ends or the client is closed. When ctx
// ends, the caller's error says who has the name and which place the caller had. So the
// client looks first, while the place in the queue exists, and then ends the request.
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

// look is one Inspect for which several calls wait.
type look struct {
	done chan struct{}
	held *HeldError // set before done is closed; nil if nobody is seen to have the name
}

// look asks the store who has name and which place this client has in the queue. It
// asks nothing once ctx has ended, as the caller may have returned (patience.stop does
// not wait), nor once the client is closed, as Close does not wait for what begins now.
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
		c.background.Go(func() { // a call waits for it, and Close waits for the call
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

// place returns the place in the store's queue of this client's first waiter, or 0.
func (c *Client) place(info *Info) int {
	for i, w := range info.Waiters {
		if w.Holder == *c.holder {
			return i + 1
		}
	}
	return 0
}

// quit takes a waiter whose context has ended out of its line and returns who has the
// name. It does nothing if the line has called the waiter in the same instant.
func (c *Client) quit(p *place) (called bool, held *HeldError) {
	ahead, holder, ok := c.leaveLine(p)
	if !ok {
		return true, nil
	}
	if holder != nil && holder.Err() == nil {
		held = holder.heldError()
		held.Place = 1
	} else if seen := c.look(c.ctx, p.Of.name); seen != nil {
		behind := *seen // other calls share what was seen
		held = &behind
		ahead++ // the call that stands in the store's queue for this line
	}
	if held != nil && held.Place > 0 && ahead < maxPlace {
		held.Place += ahead
	}
	return false, held
}

// gaveUp returns the error of a call whose context has ended, with the holder that the
// store named last.
func (p *patience) gaveUp(ctx context.Context) error { return left(ctx, p.held.Load()) }

// saw notes what a store without a queue has answered.
func (p *patience) saw(err error) {
	var held *HeldError
	if errors.As(err, &held) && held.Info != nil && len(held.Info.Holders) > 0 {
		p.held.Store(held)
	}
}
