// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/trust"
)

// maxRenewals bounds a client's renewals under way. A part of the store that hangs occupies two for each of its leases,
// and must leave places for the leases of the other parts.
const maxRenewals = 8192

// renew makes one attempt to renew the grant, for the lease that has it. Package trust
// repeats an attempt that fails until the deadline, and begins a second one beside an
// attempt without an answer.
func (g *grant) renew() {
	g.mu.Lock()
	l := g.present
	req, ok := l.trust.Renew(driver.Now())
	if ok {
		g.client.sched.WakeAt(&g.item, l.trust.Due())
	}
	g.mu.Unlock()
	if ok {
		_ = l.sendRenewal(g.client.ctx, req) // the lease records the error
	}
}

// begin begins a request for ttl. If another request is under way, it returns an error
// and a channel that is closed when that request has ended.
func (l *Lease) begin(ttl time.Duration) (trust.Request, <-chan struct{}, error) {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	req, err := l.trust.Extend(ttl, driver.Now())
	switch {
	case err == nil:
		g.client.sched.WakeAt(&g.item, l.trust.Due())
	case err == trust.ErrBusy && g.free == nil:
		g.free = make(chan struct{})
	}
	return req, g.free, err
}

// giveUp notes that a call of Extend no longer waits for its turn.
func (l *Lease) giveUp() {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.trust.GiveUp(driver.Now()) {
		g.client.sched.WakeAt(&g.item, l.trust.Due())
	}
}

// sendRenewal sends a renewal that has begun. The lease that has the grant when the answer comes
// gets it.
func (l *Lease) sendRenewal(ctx context.Context, req trust.Request) error {
	timed, cancel := context.WithTimeout(ctx, req.Timeout)
	defer cancel()
	began := driver.Now()
	since, err := l.grant.remote.Renew(timed, req.TTL)
	answer := trust.Answer{Sent: began, TTL: req.TTL, Since: since, Err: err, GaveUp: err != nil && ctx.Err() != nil}
	has, do := l.grant.answered(l, answer)
	has.tellLoss(do.Lost)
	if ended := l.Cause(); ended != nil {
		return ended
	}
	return err
}

// answered ends a request of asker, and returns the lease that got the answer.
func (g *grant) answered(asker *Lease, a trust.Answer) (*Lease, trust.Action) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free != nil {
		close(g.free)
		g.free = nil
	}
	l, now := g.present, driver.Now()
	a.Own = l == asker
	left, ttl := l.trust.Window().Sub(now), l.trust.TTL()
	do := l.trust.Answer(a, now, g.client.random.chance())
	if do.Renewed {
		g.client.observer.Renewed(l, now.Sub(a.Sent), left, ttl)
	}
	l.carryOut(do, now)
	return l, do
}

// stretch is Extend for a store that does not end leases.
func (l *Lease) stretch(ttl time.Duration) error {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := driver.Now()
	err := l.trust.Stretch(ttl, now, g.client.random.chance())
	if err == nil {
		l.carryOut(trust.Action{}, now)
	}
	return err
}

// LimitTo ends the lease at limit.
func (l *Lease) LimitTo(limit driver.Instant) {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	l.trust.Limit(limit)
	g.client.sched.WakeAt(&g.item, g.present.trust.Due())
}

// Extend renews the lease now, for ttl.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if !l.grant.client.expires {
		return l.stretch(ttl)
	}
	for {
		req, free, err := l.begin(ttl)
		if err == nil {
			ctx, cancel := l.grant.client.UntilClose(ctx)
			defer cancel()
			return l.sendRenewal(ctx, req)
		} else if err != trust.ErrBusy {
			return err
		}
		select {
		case <-free:
		case <-l.Done():
		case <-ctx.Done():
			l.giveUp()
			return ctx.Err()
		}
	}
}

// wake carries out what is due at now.
func (g *grant) wake(now driver.Instant) {
	g.mu.Lock()
	l := g.present
	do := l.trust.Wake(now)
	if do.Renew {
		g.client.renewals.Add(g)
	}
	l.carryOut(do, now)
	g.mu.Unlock()
	l.tellLoss(do.Lost)
	if do.Over {
		l.giveBack()
	}
}

// carryOut records the consequences of an event, and sets the time of the next wake. The
// caller holds g.mu, so that times are set in order, and then calls tellLoss for what may
// block or call back.
func (l *Lease) carryOut(do trust.Action, now driver.Instant) {
	g := l.grant
	switch {
	case do.Lost:
		l.finish()
		return
	case do.Suspect != nil:
		g.client.observer.Suspect(l, do.Suspect, l.trust.Deadline().Sub(now))
	}
	g.client.sched.WakeAt(&g.item, l.trust.Due())
}

// tellLoss tells contexts and observers about a loss, if the lease was just lost.
func (l *Lease) tellLoss(lost bool) {
	if !lost {
		return
	}
	c := l.grant.client
	c.sched.Remove(&l.grant.item)
	l.tell()
	c.leave(l)
	if !l.idle {
		c.observer.Lost(l, l.Cause())
	}
	if l.resting {
		l.giveBack()
	}
}
