// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/trust"
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
	case here.returned == nil && here.mine != nil && here.mine.Ended() == nil:
		return nil, here.mine.heldError()
	case here.waiting:
		ctx, cancel := c.UntilClose(ctx)
		defer cancel()
		return nil, c.heldBefore(ctx, req.Name)
	case here.returned != nil:
		select {
		case <-here.returned:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, driver.ErrClosed
		}
	}
	req.Lease, req.Keeps = participant.NewID(), call.Terms.Idle > 0
	grant, err := c.participant.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return c.lease(req, call, grant), nil
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

// Again serves a call for the same name under the context of l. It returns l with one
// more hold, or an error if it cannot add one: the caller would wait for itself, or behind
// a writer that waits for the caller. It returns neither if l has just ended.
func (l *Lease) Again(call Call) (*Lease, error) {
	k, mine := call.Kind, l.asked.Kind
	serves := k == mine || k == line.Shared && mine == line.Exclusive
	advice := ""
	switch {
	case call.Reentrant && serves:
		if locked(l, (*trust.Lease).Hold) {
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
