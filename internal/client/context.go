// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"slices"
)

// Context returns a copy of parent that also ends with the lease, and a function that ends it earlier.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(parent)
	c := &leaseContext{Context: inner, lease: l, cancel: cancel}
	if !l.bind(c) {
		cancel(l.Err())
	}
	return c, func() {
		l.unbind(c)
		cancel(context.Canceled)
	}
}

// leaseContext is the context of a lease's holder.
type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

// bind makes ctx end with the lease. It reports false if the lease has ended.
func (l *Lease) bind(ctx *leaseContext) bool {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.trust.Ended() != nil {
		return false
	}
	if l.bound == nil {
		l.bound = make(map[*leaseContext]struct{})
	}
	l.bound[ctx] = struct{}{}
	return true
}

func (l *Lease) unbind(ctx *leaseContext) {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	delete(l.bound, ctx)
}

func (c *leaseContext) Err() error {
	// The lease ends before its contexts do. In between, and after a pause, only the
	// lease knows that it has ended.
	if cause := c.lease.Err(); cause != nil {
		c.cancel(cause)
	} else if outer, ok := c.Context.Value(keyOf(c.lease.Client())).(*leaseContext); ok {
		_ = outer.Err() // which cancels this one too
	}
	return c.Context.Err()
}

// Value lets Held and LeaseFrom find this context, unless nobody was granted its lease.
func (c *leaseContext) Value(key any) any {
	if c.lease.grant.remote != nil && (key == any(keyOf(c.lease.Client())) || key == any(leaseKey{})) {
		return c
	}
	return c.Context.Value(key)
}

// clientKey is the key of a client's innermost leaseContext: the client's address, with
// a type that no other key has.
type clientKey Client

func keyOf(c *Client) *clientKey { return (*clientKey)(c) }

// leaseKey is the key of the innermost leaseContext of any client.
type leaseKey struct{}

// LeaseFrom returns the innermost lease whose Context method has made ctx or an ancestor of ctx, or nil.
func LeaseFrom(ctx context.Context) *Lease {
	if c, ok := ctx.Value(leaseKey{}).(*leaseContext); ok {
		return c.lease
	}
	return nil
}

// LeasesFrom returns all leases that LeaseFrom may find in ctx and that have not ended, the innermost first.
func LeasesFrom(ctx context.Context) (leases []*Lease) {
	for {
		c, ok := ctx.Value(leaseKey{}).(*leaseContext)
		if !ok {
			return leases
		}
		if !slices.Contains(leases, c.lease) && c.lease.Err() == nil {
			leases = append(leases, c.lease)
		}
		ctx = c.Context
	}
}

// Held returns the live lease on name that ctx was made from, or nil.
func (c *Client) Held(ctx context.Context, name string) *Lease {
	for {
		lc, ok := ctx.Value(keyOf(c)).(*leaseContext)
		if !ok {
			return nil
		}
		if lc.lease.Name() == name && lc.lease.Err() == nil {
			return lc.lease
		}
		ctx = lc.Context
	}
}
