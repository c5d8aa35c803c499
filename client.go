// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
)

// Client acquires leases from one store. It is safe for concurrent use, and a process needs
// only one for each store. Open, New and the packages of the stores make clients.
type Client struct {
	core     *client.Client // has the leases, and the store when it is connected
	require  Guarantees
	ttl      time.Duration
	holder   *driver.Holder
	observer reporter
	longest  atomic.Int64 // MaxTTL of the store, a time.Duration, as last heard; 0 before
}

// Close releases the leases that are still held, removes what lost ones have left in the
// store, waits for the requests in the background, and closes the store. Calls of Acquire that
// wait return ErrClosed. If the store does not answer, Close takes some five seconds, however
// many leases there are; those that are left end with their TTL. If a part of the store
// answers, it gets its leases back in any case. A second call of Close waits for the first and
// returns the same.
func (c *Client) Close() error { return client.Only(c.core.Close()) }

// maxTrace is the longest text of Observer.Trace that is stored. A traceparent has 55 characters.
const maxTrace = 64

// caller returns the holder for the record of a call, and the context of the call if the observer wants it.
func (c *Client) caller(ctx context.Context) (*driver.Holder, context.Context) {
	holder := c.holder
	if c.observer.Trace != nil {
		if trace := c.observer.Trace(ctx); trace != "" && len(trace) <= maxTrace {
			traced := *c.holder
			traced.Trace, holder = trace, &traced
		}
	}
	if !c.observer.listens {
		ctx = nil
	}
	return holder, ctx
}

// Acquire waits until it has a lease on name. ctx bounds only the waiting: the lease goes on
// when ctx ends. Waiters of one client are served in the order in which they came.
//
// If ctx ends first, the error is ctx.Err() and context.Cause(ctx). It is also a *HeldError
// with the place in the queue if the holder is known, or a *ClosedError if the store grants
// nothing at present. The caller holds nothing then. If the lease was granted in that instant,
// the client gives it back in the background, and others may find the name held until then.
//
// The other errors are
//
//   - ErrUnavailable if the store cannot be reached, has not answered for a whole TTL, or has
//     granted the lease too late several times;
//   - ErrHeld if ctx was made by Context of a lease on name that is still held: the call would
//     wait for itself, see Reentrant;
//   - a *SlotsError if the name is held with another number of slots;
//   - a *DeadlockError if the call would wait for ever, because the holder waits, directly or
//     through others, for a lease of this caller. The client knows the leases in whose contexts
//     the caller calls, and those of Holding. It looks after a second, and one call of a cycle
//     gets the error; see WaitInDeadlock.
func (c *Client) Acquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	ctx = present(ctx)
	if err := c.core.Reach(ctx); err != nil {
		return nil, c.opError(ctx, "acquire", name, err)
	}
	req, set, err := c.request(ctx, "acquire", name, opts)
	if err != nil {
		return nil, err
	}
	if l := c.core.Held(ctx, name); l != nil {
		if l, err := l.Again(set.Call); l != nil {
			return (*Lease)(l), nil
		} else if err != nil {
			return nil, c.opError(ctx, "acquire", name, err)
		}
	}
	set.Waits = true
	c.observer.waiting(name, set)
	if c.observer.Trace != nil {
		set.Behind = c.core.FindObstacle(name)
		defer set.Behind.Stop()
	}
	l, err := c.core.Acquire(ctx, req, set.Call)
	if err == nil {
		return (*Lease)(l), nil
	}
	err = c.opError(ctx, "acquire", name, err)
	if l == nil { // otherwise the observer was called with Acquired
		c.observer.waited(name, set, err)
	}
	return nil, err
}

// TryAcquire asks the store once for a lease on name, and waits for nobody. The error is
//
//   - ErrHeld, with a *HeldError, if somebody holds the name or a goroutine of this client
//     waits for it;
//   - a *SlotsError if the name is held with another number of slots;
//   - ErrUnavailable if the store has certainly recorded nothing, or the grant came too late
//     and was given back;
//   - ErrUncertain if the store may have recorded the grant, which the client undoes in the
//     background;
//   - ctx.Err() if ctx ends first.
func (c *Client) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	ctx = present(ctx)
	if err := c.core.Ready(ctx); err != nil {
		return nil, c.opError(ctx, "try", name, err)
	}
	req, set, err := c.request(ctx, "try", name, opts)
	if err != nil {
		return nil, err
	}
	var l *client.Lease
	if held := c.core.Held(ctx, name); set.Reentrant && held != nil {
		l, err = held.Again(set.Call)
	}
	if l == nil && err == nil {
		l, err = c.core.TryAcquire(ctx, req, set.Call)
	}
	return (*Lease)(l), c.opError(ctx, "try", name, err)
}

// request checks the arguments of an attempt. Package client gives
// the request its id when it asks the store.
func (c *Client) request(ctx context.Context, op, name string, opts []Option) (*driver.Request, settings, error) {
	set, err := c.settings(opts)
	if err == nil {
		err = driver.CheckName(name)
	}
	if err != nil {
		return nil, set, wrap(op, name, err)
	}
	if ctx.Err() != nil {
		return nil, set, wrap(op, name, client.GaveUp(ctx, nil))
	}
	if set.Terms.MinHold > 0 {
		if err := c.checkMinHold(ctx, set.Terms.MinHold); err != nil {
			return nil, set, wrap(op, name, err)
		}
	}
	var holder *driver.Holder
	holder, set.Context = c.caller(ctx)
	return &driver.Request{
		Name: name, TTL: set.Terms.TTL, Holder: holder, Why: set.Terms.Why,
		// With MinHold the store must grant the whole TTL, in case this process ends.
		Shared: set.shared, Slots: set.slots, Renewed: !set.Terms.NoRenew && set.Terms.MinHold == 0,
	}, set, nil
}

// Inspect returns the holders of name and its waiters. Both are empty if nobody uses the name.
// The answer is for people and their tools: it may be out of date when it is read.
func (c *Client) Inspect(ctx context.Context, name string) (*Info, error) {
	ctx = present(ctx)
	var info *driver.Info
	err := c.ready(ctx, name)
	if err == nil {
		info, err = c.core.Inspect(ctx, name)
	}
	return infoOf(info), c.opError(ctx, "inspect", name, err)
}

// List describes the names that have a holder or a waiter and begin with prefix, sorted by name.
// It leaves out waiters that only this client knows; Inspect has them. If some names cannot be
// read, List returns the others together with the error.
func (c *Client) List(ctx context.Context, prefix string) ([]*Info, error) {
	ctx = present(ctx)
	var list []*driver.Info
	err := c.core.Usable(ctx)
	if err == nil {
		list, err = c.core.List(ctx, prefix)
	}
	return each(list, infoOf), c.opError(ctx, "list", prefix, err)
}

// Store describes the store itself: the longest TTL that its clients have agreed on, and
// whether it grants nothing for a while. It changes nothing. The error is
// errors.ErrUnsupported if the clients of the store need not agree on anything.
func (c *Client) Store(ctx context.Context) (*StoreInfo, error) {
	ctx = present(ctx)
	var info *driver.StoreInfo
	err := c.core.Usable(ctx)
	if err == nil {
		info, err = c.core.Participant().Describe(ctx)
	}
	if err != nil {
		return nil, c.opError(ctx, "describe", "", err)
	}
	return &StoreInfo{info.MaxTTL, (*Holder)(info.SetBy), info.Closed, info.Why, info.Do}, nil
}

// Break ends the lease with the given id, which another client holds on name. That lease is lost,
// and its LostError says who broke it and why. If the lease does not hold name, Break changes
// nothing and returns ErrHeld, with the present holder, or ErrReleased if there is none. Break
// cannot end a transaction that the lease guards: it returns ErrHeld then, with Held.Transaction.
//
// In a store that watches processes, such as a directory, only the holder can end its lease. There
// Break asks the holder and waits until it has released the lease or ctx ends. If the same
// goroutine would release the lease after Break, it waits for itself.
func (c *Client) Break(ctx context.Context, name, lease, why string) error {
	ctx = present(ctx)
	err := c.ready(ctx, name)
	switch {
	case err != nil:
	case lease == "":
		err = errors.New("no lease id: take it from Inspect, so that no other lease is broken")
	case len(why) > maxWhy:
		err = fmt.Errorf("the reason has %d bytes: use at most %d", len(why), maxWhy)
	}
	if err != nil {
		return c.opError(ctx, "break", name, err)
	}
	err = c.core.Participant().Break(ctx, name, lease, c.holder, why)
	switch {
	case err != nil && err == ctx.Err():
		return c.opError(ctx, "break", name, err)
	case err != nil: // unlike opError, keep the store's error if ctx has ended: it may say why the victim has not let go
		return wrap("break", name, err)
	}
	c.observer.broken(name, lease, why)
	return nil
}

// ready connects to the store, for a call for name.
func (c *Client) ready(ctx context.Context, name string) error {
	if err := c.core.Usable(ctx); err != nil {
		return err
	}
	return driver.CheckName(name)
}

// opError adds operation and name to err, unless it is nil.
func (c *Client) opError(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	return wrap(op, name, c.core.Reason(ctx, err))
}
