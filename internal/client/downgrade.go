// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/trust"
)

// Downgrade ends an exclusive lease and returns a shared one. The store replaces one by the other in one step.
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	c := l.grant.client
	ended := l.Ended()
	switch {
	case ended != nil:
		return nil, ended
	case l.asked.Kind != line.Exclusive:
		return nil, fmt.Errorf("the lease is not exclusive, and only an exclusive lease can become a shared one: %w", errors.ErrUnsupported)
	case !c.participant.Caps().Downgrades:
		return nil, fmt.Errorf("this store cannot replace a lease by a shared one in one step; release it and acquire a Shared one: %w", errors.ErrUnsupported)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !c.starts():
		return nil, driver.ErrClosed
	}
	defer c.calls.Done()
	terms, err := l.lower()
	if err != nil {
		return nil, err
	}
	back := errPanic
	defer func() { l.gone(back) }() // deferred, in case a store panics: Close waits for this
	defer c.forget(l.grant)
	holder, observed := c.config.Caller(ctx)
	call := Call{Asked: Asked{Context: observed, Kind: line.Shared}, Began: driver.Now(), Terms: terms}
	req := &driver.Request{Name: l.grant.name, Lease: participant.NewID(), TTL: terms.TTL, Holder: holder, Why: terms.Why, Shared: true}
	asking, cancel := context.WithTimeout(participant.Lent(ctx, c.ctx), participant.RequestTimeout)
	defer cancel()
	grant, err := l.grant.remote.Downgrade(asking, req)
	if back = nil; err != nil {
		back = l.wrap("release", l.grant.remote.Release(ctx))
	}
	c.leave(l)
	c.observer.Released(l, back, false)
	if err != nil {
		return nil, err
	}
	return c.lease(req, call, grant), nil
}

// starts registers a call that Close waits for. It reports false if the client is closed.
func (c *Client) starts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}

// lower ends the lease, and returns the terms of the shared one that replaces it.
func (l *Lease) lower() (trust.Terms, error) {
	l.grant.mu.Lock()
	terms, ok := l.trust.Lower(driver.Now())
	cause, holds := l.trust.Ended(), l.trust.Holds()
	if ok {
		l.finish()
	}
	l.grant.mu.Unlock()
	switch {
	case ok:
		l.grant.client.sched.Remove(&l.grant.item)
		l.tell()
		return terms, nil
	case cause != nil:
		return terms, cause
	case holds == 0:
		return terms, driver.ErrReleased
	}
	return terms, errors.New("the lease is held more than once, and its other holders rely on its kind: downgrade it before it is acquired again")
}
