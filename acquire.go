// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/participant"
)

// Acquire waits until it has a lease on name. ctx bounds the waiting only: the
// lease goes on when ctx ends. Waiters of this client are served in the order
// in which they came.
//
// If ctx ends first, the error is ctx.Err() and context.Cause(ctx), and also a
// *HeldError with the place in the queue if the holder is known, or a *ClosedError if
// the store grants nothing at present. The caller then holds nothing, even if the lease
// was granted in that very instant: the client gives it back in the background, and others
// may find the name held until then.
//
// The error is ErrUnavailable if the store cannot be reached, has been out of reach
// for a whole TTL, or has granted the lease several times when its TTL was over already. It is ErrHeld if ctx was made by Context of a lease on name that is
// still held, as the call would wait for itself. It is a *SlotsError if the name is
// held with another number of slots. It is a *DeadlockError if the call would wait for
// ever, because the holder waits, directly or through others, for a lease of this caller.
// The client knows the leases in whose contexts the caller calls, and those of Holding. It
// looks after a second of waiting, and one call of a cycle gets the error; see
// WaitInDeadlock.
func (c *Client) Acquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	ctx = present(ctx)
	if err := c.ready(ctx); err != nil {
		return nil, c.opError(ctx, "acquire", driver.Shorten(name), err)
	}
	req, set, err := c.request(ctx, "acquire", name, opts)
	if err != nil {
		return nil, err
	}
	if l := c.held(ctx, name); l != nil {
		if l, err := l.again(set); l != nil {
			return l, nil
		} else if err != nil {
			return nil, c.opError(ctx, "acquire", name, err)
		}
	}
	set.waits = true
	c.observer.waiting(name, set)
	if c.observer.Trace != nil {
		set.behind = c.findObstacle(name)
		defer set.behind.stop()
	}
	l, err := c.acquireUnder(ctx, req, set)
	if err == nil {
		return l, nil
	}
	err = c.opError(ctx, "acquire", name, err)
	if l == nil { // or the observer was told of an Acquired
		c.observer.waited(name, set, err)
	}
	return nil, err
}

// acquire returns a lease beside an error as wait does.
func (c *Client) acquire(ctx context.Context, req *driver.Request, set settings) (*Lease, error) {
	place, kept, err := c.join(req, set)
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
	defer c.answered(req.Name) // also if the store panics
	if req.Lease == "" {
		req.Lease = participant.NewID()
	}
	if set.keepIdle > 0 {
		req.Keeps, req.Renewed = true, false // what is left of a claim is too little to be kept
	}
	grant, err := c.store.Acquire(ctx, req)
	if err != nil {
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
			err = waited(ctx, err)
		}
		return nil, err
	}
	l := c.lease(req, set, grant)
	c.settle(l)
	return l, nil
}

// TryAcquire asks the store once for a lease on name and does not wait for a holder.
//
// The error is ErrHeld, with a *HeldError, if somebody holds the name or a goroutine of
// this client waits for it; ErrUnavailable if the store did not answer and certainly
// recorded nothing, or if the grant came too late and was given back; ErrUncertain if the store may
// have recorded the grant, which the client undoes in the background; a *SlotsError if the name is held with another
// number of slots; and ctx.Err() if ctx ends first.
func (c *Client) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	ctx = present(ctx)
	if err := c.ready(ctx); err != nil {
		return nil, c.opError(ctx, "try", driver.Shorten(name), err)
	}
	req, set, err := c.request(ctx, "try", name, opts)
	if err != nil {
		return nil, err
	}
	l, err := c.try(ctx, req, set)
	if err != nil {
		return nil, c.opError(ctx, "try", name, err)
	}
	return l, nil
}

func (c *Client) try(ctx context.Context, req *driver.Request, set settings) (*Lease, error) {
	if l, err := c.reenter(ctx, req.Name, set); l != nil || err != nil {
		return l, err
	}
	here, err := c.enter(req.Name, set)
	if err != nil {
		return nil, err
	}
	defer c.calls.Done()
	switch {
	case here.kept != nil:
		return here.kept, nil
	case here.returned != nil:
	case here.mine != nil && here.mine.Err() == nil:
		return nil, here.mine.heldError()
	}
	if here.waiting {
		ctx, cancel := c.untilClose(ctx)
		defer cancel()
		return nil, c.heldBefore(ctx, req.Name)
	}
	if here.returned != nil {
		select {
		case <-here.returned:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, ErrClosed
		}
	}
	req.Lease, req.Keeps = participant.NewID(), set.keepIdle > 0
	grant, err := c.store.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	l := c.lease(req, set, grant)
	c.settle(l)
	return l, nil
}

// reenter returns the lease of ctx on name with one more hold, if the call is Reentrant and there is one.
func (c *Client) reenter(ctx context.Context, name string, set settings) (*Lease, error) {
	if !set.reentrant {
		return nil, nil
	}
	if l := c.held(ctx, name); l != nil {
		return l.again(set)
	}
	return nil, nil
}

// inClient is what this client has of a name.
type inClient struct {
	kept, mine *Lease          // for this call; the holder in the line
	returned   <-chan struct{} // closed when a kept lease that does not fit has been given back
	waiting    bool
}

// enter lets a call in that does not wait. The caller has to call calls.Done unless it returns
// an error.
func (c *Client) enter(name string, set settings) (here inClient, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return here, ErrClosed
	}
	c.calls.Add(1)
	if ln := c.lines[name]; ln != nil {
		here.kept, here.mine, here.waiting = c.reuse(ln, set), ln.Holder(), ln.Waiting()
		if here.kept == nil && here.mine != nil && here.mine.idle { // and it does not fit
			here.returned = c.returnLater(here.mine)
		}
	}
	return here, nil
}

// heldBefore returns the error of a call that must not overtake the waiters of this
// client. It names the holder if the store tells it.
func (c *Client) heldBefore(ctx context.Context, name string) error {
	held := &HeldError{}
	held.Info, _ = c.store.Inspect(ctx, name)
	if err := c.over(ctx); err != nil {
		return err
	}
	return held
}

// Do runs f while holding a lease on name, for which it waits as Acquire does.
// f's context ends with the lease. Do returns f's error, or the error of
// acquiring or releasing; if the lease ended while f ran, the error is ErrLost
// or ErrReleased too, whatever f returned.
func (c *Client) Do(ctx context.Context, name string, f func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	ctx = present(ctx)
	if f == nil {
		return noWork("acquire", name)
	}
	lease, err := c.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, f)
}

// TryDo is Do, but does not wait: if somebody holds the name, or TryAcquire fails for
// another reason, f is not called, and the error is that of TryAcquire.
func (c *Client) TryDo(ctx context.Context, name string, f func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	ctx = present(ctx)
	if f == nil {
		return noWork("try", name)
	}
	lease, err := c.TryAcquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	return lease.do(ctx, f)
}

func noWork(op, name string) error {
	return &Error{op, driver.Shorten(name), errors.New("the function to call is nil: give the work to be done under the lease")}
}

// do runs f under the lease and gives it back.
func (l *Lease) do(ctx context.Context, f func(ctx context.Context, lease *Lease) error) (err error) {
	defer func() {
		// If the lease had ended before, the work was not done under it.
		ended := l.Err()
		cause := l.ended()
		if rel := l.Release(ctx); ended == nil {
			ended, cause = rel, rel
		}
		switch {
		case ended == nil:
		case err == nil:
			err = ended
		case errors.Is(err, cause): // f has returned how its context ended
			err = only(err)
		default:
			err = only(fmt.Errorf("%w; %w", ended, err))
		}
	}()
	ctx, cancel := l.Context(ctx)
	defer cancel()
	return f(ctx, l)
}

// request checks the arguments of an attempt. The request gets its id later, when the
// store is asked.
func (c *Client) request(ctx context.Context, op, name string, opts []Option) (*driver.Request, settings, error) {
	set, err := c.settings(opts)
	if err == nil {
		err = driver.CheckName(name)
	}
	if err != nil {
		return nil, set, &Error{op, driver.Shorten(name), err}
	}
	if ctx.Err() != nil {
		return nil, set, &Error{op, name, left(ctx, nil)}
	}
	if set.minHold > 0 {
		if err := c.checkKept(ctx, set.minHold); err != nil {
			return nil, set, &Error{op, name, err}
		}
	}
	if c.observer.listens {
		set.ctx = ctx
	}
	return &driver.Request{
		Name: name, TTL: set.ttl, Holder: c.traced(ctx), Why: set.why,
		// With MinHold the store has to have the whole TTL, in case this process ends.
		Shared: set.shared, Slots: set.slots, Renewed: !set.noRenew && set.minHold == 0,
	}, set, nil
}

// heldError describes the lease as somebody else would see it.
func (l *Lease) heldError() *HeldError {
	held := driver.Held{Holder: *l.grant.client.holder, Lease: l.grant.id, Token: l.token}
	switch k := l.asked.kind; {
	case k == line.Shared:
		held.Shared = true
	case k > 0:
		held.Slots = int(k)
	}
	held.Acquired = time.Now().Add(-driver.Now().Sub(l.began))
	return &HeldError{Info: &Info{Name: l.grant.name, Token: held.Token, Holders: []driver.Held{held}}}
}

// opError adds operation and name to err. It does not pass on how a store reports the
// end of ctx.
func (c *Client) opError(ctx context.Context, op, name string, err error) error {
	var known *leftError
	switch {
	case errors.As(err, &known):
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		err = left(ctx, nil)
	case c.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed)):
		err = ErrClosed // which is what cancelled it
	}
	return &Error{op, name, err}
}
