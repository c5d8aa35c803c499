// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"slices"

	"github.com/pawl-go/pawl/internal/participant"
)

// Context returns a copy of parent that also ends with the lease, and a function that
// ends it earlier and must be called. When the lease ends, context.Cause says why: the
// error is ErrLost or ErrReleased.
//
// The context's Err method looks at the clock. So it does not return nil once more
// after a pause of the process that was longer than the lease.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if l.zero() {
		ctx, cancel := context.WithCancelCause(present(parent))
		cancel(errZero)
		return ctx, func() {}
	}
	inner, cancel := context.WithCancelCause(present(parent))
	c := &leaseContext{Context: inner, lease: l, cancel: cancel}
	l.grant.mu.Lock()
	ended := l.trust.Ended() != nil
	if !ended {
		if l.contexts == nil {
			l.contexts = make(map[*leaseContext]struct{})
		}
		l.contexts[c] = struct{}{}
	}
	l.grant.mu.Unlock()
	if ended {
		cancel(l.Err())
	}
	return c, func() {
		l.grant.mu.Lock()
		delete(l.contexts, c)
		l.grant.mu.Unlock()
		cancel(context.Canceled)
	}
}

// leaseContext is the context of a lease's holder.
type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

func (c *leaseContext) Err() error {
	// The lease ends before its contexts do. In between, and after a pause, only the
	// lease knows that it has ended.
	if cause := c.lease.Err(); cause != nil {
		c.cancel(cause)
	} else if outer, ok := c.Context.Value((*holderKey)(c.lease.grant.client)).(*leaseContext); ok {
		_ = outer.Err() // which cancels this one too
	}
	return c.Context.Err()
}

// Value lets held find this context.
func (c *leaseContext) Value(key any) any {
	if key == any((*holderKey)(c.lease.grant.client)) || key == any(leaseKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// holderKey is the key of a client's innermost leaseContext: the client's address, with
// a type that no other key has.
type holderKey Client

// leaseKey is the key of the innermost leaseContext of any client.
type leaseKey struct{}

// LeaseFrom returns the lease whose Context method has made ctx, or a context that ctx is
// from; the innermost if there are several. The functions that Do and Elect call get such a
// context. The lease may have ended: see Lease.Err. ok is false if there is none.
func LeaseFrom(ctx context.Context) (lease *Lease, ok bool) {
	c, ok := present(ctx).Value(leaseKey{}).(*leaseContext)
	if !ok {
		return nil, false
	}
	return c.lease, true
}

// LeasesFrom returns the leases that have not ended whose contexts ctx is from, the innermost
// first.
func LeasesFrom(ctx context.Context) (leases []*Lease) {
	for ctx = present(ctx); ; {
		lc, ok := ctx.Value(leaseKey{}).(*leaseContext)
		if !ok {
			return leases
		}
		if !slices.Contains(leases, lc.lease) && lc.lease.Err() == nil {
			leases = append(leases, lc.lease)
		}
		ctx = lc.Context
	}
}

// held returns the live lease on name that ctx was made from, or nil.
func (c *Client) held(ctx context.Context, name string) *Lease {
	for {
		lc, ok := ctx.Value((*holderKey)(c)).(*leaseContext)
		if !ok {
			return nil
		}
		if lc.lease.grant.name == name && lc.lease.Err() == nil {
			return lc.lease
		}
		ctx = lc.Context
	}
}

// untilClose returns a copy of ctx that ends when the client is closed.
func (c *Client) untilClose(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return participant.Lent(ctx, c.ctx), func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
