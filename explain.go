// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// lookWithin bounds the time in which a call that gives up waiting looks for the holder
// of the name. The caller should not notice the delay.
const lookWithin = 50 * time.Millisecond

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

// patience is one wait at the store. When the caller's context ends, the error says who has the name and which
// place the caller had, or that the store is in quarantine. So the client looks first, while the place in the queue
// exists, and then ends the wait.
type patience struct {
	client *Client
	ctx    context.Context // of the caller
	name   string
	why    atomic.Pointer[error] // what the call waits for, as was seen last
}

// ask asks the store until it grants.
func (c *Client) ask(ctx context.Context, req *driver.Request) (*participant.Lease, error) {
	p := &patience{client: c, ctx: ctx, name: req.Name}
	lease, err := c.store.AcquireWith(ctx, req, p)
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
		err = p.gaveUp(err)
	}
	return lease, err
}

// Begin returns the context of the wait: it ends a little after that of the caller, or when the client is closed.
func (p *patience) Begin() (context.Context, func()) {
	inner := participant.Lent(p.ctx, p.client.ctx)
	if p.ctx.Done() == nil {
		return inner, func() {}
	}
	inner, cancel := context.WithCancel(inner)
	unwatch := context.AfterFunc(p.ctx, func() {
		if why := p.client.look(inner, p.name); why != nil {
			p.why.Store(&why)
		}
		cancel()
	})
	return inner, func() { unwatch(); cancel() }
}

// gaveUp returns the error of a call whose context has ended, with what was seen last as the reason to wait. A store
// without a queue says that in its answers.
func (p *patience) gaveUp(err error) error {
	var held *HeldError
	switch why := p.why.Load(); {
	case why != nil:
		return left(p.ctx, *why)
	case errors.As(err, &held):
		return left(p.ctx, held)
	}
	return left(p.ctx, nil)
}

// look is one request for which several calls wait.
type look struct {
	done chan struct{}
	why  error // set before done is closed; nil if the store shows no reason to wait
}

// look asks the store what a call for name waits for; see obstacle. It asks nothing once
// ctx has ended, as the caller may have returned (the wait does not), nor once
// the client is closed, as Close does not wait for what begins now.
func (c *Client) look(ctx context.Context, name string) error {
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
			l.why = c.obstacle(ctx, name)
			c.mu.Lock()
			delete(c.looks, name)
			c.mu.Unlock()
			close(l.done)
		})
	}
	c.mu.Unlock()
	select {
	case <-l.done:
		return l.why
	case <-time.After(lookWithin):
	case <-ctx.Done():
	}
	return nil
}

// obstacle asks the store who has name and which place this client has in the queue, or,
// if nobody has it, whether the store is in quarantine. It returns nil if neither is the
// case or the store does not say.
func (c *Client) obstacle(ctx context.Context, name string) error {
	info, err := c.store.Inspect(ctx, name)
	if err != nil {
		return nil
	}
	if len(info.Holders) > 0 {
		held := &HeldError{Info: info}
		if c.guarantees.FIFO { // else the queue says nothing of the order
			held.Place = c.place(info)
		}
		return held
	}
	if is, err := c.store.Describe(ctx); err == nil && is.Closed > 0 {
		return &ClosedError{Left: is.Closed, MaxTTL: is.MaxTTL, SetBy: is.SetBy}
	}
	return nil
}

// place returns the place in the store's queue of this client's first waiter, or 0.
func (c *Client) place(info *Info) int {
	for i, w := range info.Waiters {
		if w.Trace = c.holder.Trace; w.Holder == *c.holder {
			return i + 1
		}
	}
	return 0
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
		why := c.look(c.ctx, p.Of.name)
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
