// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/trust"
)

// again serves a call that is made under the context of l, on the same name. It returns
// l with one more hold, or an error if it cannot add one: the caller would wait for
// itself or, behind a writer, for a waiter that waits for the caller. It returns
// neither if l has just ended.
func (l *Lease) again(set settings) (*Lease, error) {
	k, mine := set.kind(), l.asked.kind
	serves := k == mine || k == line.Shared && mine == line.Exclusive
	advice := ""
	switch {
	case set.reentrant && serves:
		if l.hold() {
			return l, nil
		}
		return nil, nil
	case k == line.Exclusive && mine == line.Shared:
		advice = " (acquire the exclusive lease first and Downgrade it, or release the shared one before)"
	case !serves:
		advice = " (it is of another kind)"
	default:
		advice = " (or is it meant to be Reentrant?)"
	}
	return nil, fmt.Errorf("the lease %s of this very context would wait for itself%s: %w", l.grant.id, advice, l.heldError())
}

// hold adds one hold, unless the lease has ended.
func (l *Lease) hold() bool {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.trust.Hold()
}

// Downgrade ends an exclusive lease and returns a shared one on the same name, with an id and a
// greater token of its own. The store does both in one step, so nobody can change what the writer
// has written before the reader has read it. Then waiting readers are granted the name. The
// shared lease has the options of the exclusive one, and what is left of MinHold and MaxHold.
//
// The exclusive lease ends before the store is asked, as released: from then on others may read.
// So its contexts end, and a further Release returns at once. Like Release, Downgrade uses only
// the values of ctx from then on, and takes at most five seconds.
//
// The error is ErrLost or ErrReleased if the lease has ended, ctx.Err() if ctx has, and
// wraps errors.ErrUnsupported if the lease is not exclusive or the store cannot do this in one
// step; redislock (but not with Mode Efficiency), pglock and memlock can. It is another one if the
// lease has several holds. After any further error the caller holds nothing: the client gives
// back both leases.
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	if l.zero() {
		return nil, errZero
	}
	ctx = present(ctx)
	shared, err := l.downgrade(ctx)
	if err != nil {
		return nil, l.grant.client.opError(ctx, "downgrade", l.grant.name, err)
	}
	return shared, nil
}

func (l *Lease) downgrade(ctx context.Context) (*Lease, error) {
	c := l.grant.client
	l.check()
	switch {
	case l.ended() != nil:
		return nil, l.ended()
	case l.asked.kind != line.Exclusive:
		return nil, fmt.Errorf("only an exclusive lease can become a shared one: %w", errors.ErrUnsupported)
	case !c.store.Caps().Downgrades:
		return nil, fmt.Errorf("this store cannot put a shared lease in its place in one step: %w", errors.ErrUnsupported)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !c.starts():
		return nil, ErrClosed
	}
	defer c.calls.Done()
	terms, err := l.lower()
	if err != nil {
		return nil, err
	}
	back := errPanic
	defer func() { l.gone(back) }() // also if a store panics: Close waits for this
	defer c.forget(l.grant)
	set := settings{
		began: driver.Now(), shared: true, ttl: terms.TTL, why: terms.Why, noRenew: terms.NoRenew,
		maxHold: terms.MaxHold, minHold: terms.MinHold, progress: terms.Progress,
	}
	if c.observer.listens {
		set.ctx = ctx
	}
	req := &driver.Request{Name: l.grant.name, Lease: participant.NewID(), TTL: set.ttl, Holder: c.traced(ctx), Why: set.why, Shared: true}
	asking, cancel := context.WithTimeout(participant.Lent(ctx, c.ctx), requestTimeout)
	defer cancel()
	grant, err := l.grant.remote.Downgrade(asking, req)
	if back = nil; err != nil {
		back = l.grant.remote.Release(ctx)
	}
	c.leave(l)
	c.observer.released(l, back)
	if err != nil {
		return nil, err
	}
	shared := c.lease(req, set, grant)
	c.settle(shared)
	return shared, nil
}

// starts reports whether a call may begin that Close has to wait for.
func (c *Client) starts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}

// lower ends the lease because a shared one comes in its place, and returns the terms of that.
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
		return terms, ErrReleased
	}
	return terms, errors.New("it is held more than once, and the others count on it as it is: downgrade before it is acquired again")
}
