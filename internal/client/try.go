// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/participant"
)

// TryAcquire asks the store once.
func (c *Client) TryAcquire(ctx context.Context, req *driver.Request, call Call) (*Lease, error) {
	here, err := c.enter(req.Name, call)
	if err != nil {
		return nil, err
	}
	defer c.calls.Done()
	switch {
	case here.kept != nil:
		return here.kept, nil
	case here.returned != nil:
	case here.mine != nil && here.mine.Ended() == nil:
		return nil, here.mine.heldError()
	}
	if here.waiting {
		ctx, cancel := c.UntilClose(ctx)
		defer cancel()
		return nil, c.heldBefore(ctx, req.Name)
	}
	if here.returned != nil {
		select {
		case <-here.returned:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, driver.ErrClosed
		}
	}
	req.Lease, req.Keeps = participant.NewID(), call.Terms.Idle > 0
	grant, err := c.store.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	l := c.lease(req, call, grant)
	c.settle(l)
	return l, nil
}

// inClient is what this client knows about a name.
type inClient struct {
	kept     *Lease          // a lease for this call, made from an idle one
	mine     *Lease          // the holder in the line
	returned <-chan struct{} // closed when an idle lease that does not fit the call has been given back
	waiting  bool            // goroutines of this client wait for the name
}

// enter registers a call that does not wait. The caller must call calls.Done unless enter returns an
// error.
func (c *Client) enter(name string, call Call) (here inClient, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return here, driver.ErrClosed
	}
	c.calls.Add(1)
	if ln := c.lines[name]; ln != nil {
		here.kept, here.mine, here.waiting = c.reuse(ln, call), ln.Holder(), ln.Waiting()
		if here.kept == nil && here.mine != nil && here.mine.idle { // it does not fit the call
			here.returned = c.returnLater(here.mine)
		}
	}
	return here, nil
}

// heldBefore returns the error of a call that must not overtake this client's waiters. It
// names the holder if the store says who that is.
func (c *Client) heldBefore(ctx context.Context, name string) error {
	held := &driver.HeldError{}
	held.Info, _ = c.store.Inspect(ctx, name)
	if err := c.over(ctx); err != nil {
		return err
	}
	return held
}

// heldError describes the lease as the store shows it to others.
func (l *Lease) heldError() *driver.HeldError {
	held := driver.Held{Holder: *l.grant.client.config.Holder, Lease: l.grant.id, Token: l.token}
	switch k := l.asked.Kind; {
	case k == line.Shared:
		held.Shared = true
	case k > 0:
		held.Slots = int(k)
	}
	held.Acquired = time.Now().Add(-driver.Now().Sub(l.began))
	return &driver.HeldError{Info: &driver.Info{Name: l.grant.name, Token: held.Token, Holders: []driver.Held{held}}}
}

// Again serves a call for the same name under the context of l. It returns l with one
// more hold, or an error if it cannot add one: the caller would wait for itself, or behind
// a writer that waits for the caller. It returns neither if l has just ended.
func (l *Lease) Again(call Call) (*Lease, error) {
	k, mine := call.Kind, l.asked.Kind
	serves := k == mine || k == line.Shared && mine == line.Exclusive
	advice := ""
	switch {
	case call.Reentrant && serves:
		if l.hold() {
			return l, nil
		}
		return nil, nil
	case k == line.Exclusive && mine == line.Shared:
		advice = " (acquire the exclusive lease first and Downgrade it, or release the shared one before)"
	case !serves:
		advice = " (release it first, as it is of another kind)"
	default:
		advice = " (use the option Reentrant to acquire it again)"
	}
	return nil, fmt.Errorf("the context of this call is that of lease %s on the same name, so the call would wait for itself%s: %w", l.grant.id, advice, l.heldError())
}

// hold adds one hold, unless the lease has ended.
func (l *Lease) hold() bool {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.trust.Hold()
}
