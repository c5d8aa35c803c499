// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/trust"
)

// Forgo drops MinHold: no work was done under the lease.
func (l *Lease) Forgo() {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	l.trust.Forgo()
}

// park ends l, which is being released, and keeps its grant in a parked lease, which has no holder: until MinHold is
// over or, if idle is set, for the next call of this client. It reports whether it did. In the line the parked lease is
// the holder.
func (l *Lease) park(idle bool) bool {
	if !l.parks(idle) {
		return false
	}
	l.tell()
	return true
}

func (l *Lease) parks(idle bool) bool {
	c, g := l.grant.client, l.grant
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[g.name]
	if c.closed || idle && (ln == nil || !ln.Quiet(l)) { // Close gives it back; waiters come first
		return false
	}
	parked := l.parked(idle)
	if parked == nil {
		return false
	}
	if ln != nil && ln.Holder() == l {
		ln.Hold(parked)
	}
	if idle {
		c.observer.Released(l, nil, true)
	}
	return true
}

// parked makes the lease that keeps the grant of l, or returns nil.
func (l *Lease) parked(idle bool) *Lease {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.trust.Parks() {
		return nil // reading the clock costs more than all of this
	}
	now, t, ok := driver.Now(), trust.Lease{}, false
	if idle {
		t, ok = l.trust.Idle(now)
	} else {
		t, ok = l.trust.Rest(now, g.client.random.chance())
	}
	if !ok {
		return nil
	}
	parked := &Lease{grant: g, token: l.token, began: l.began, asked: l.asked, resting: true, idle: idle, trust: t}
	g.present = parked
	l.finish()
	g.client.sched.WakeAt(&g.item, t.Due())
	return parked
}

// early reports whether Close has to leave l to the store: its MinHold is not over, and the store ends leases by
// itself.
func (l *Lease) early() bool {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.grant.client.expires && l.trust.Early(driver.Now())
}

// prolong makes the store keep the grant of l for the rest of MinHold, because the client will
// not renew it again.
func (l *Lease) prolong(ctx context.Context) error {
	l.grant.mu.Lock()
	left, ttl := l.trust.Short(driver.Now())
	l.grant.mu.Unlock()
	if left <= 0 {
		return nil
	}
	_, err := l.grant.remote.Renew(ctx, left)
	if err == nil || errors.Is(err, driver.ErrLost) {
		return err
	}
	kept := ttl
	// The rest may be longer than the store's MaxTTL.
	if info, no := l.grant.client.participant.Describe(ctx); no == nil && ttl < info.MaxTTL && info.MaxTTL < left {
		if _, no := l.grant.remote.Renew(ctx, info.MaxTTL); no == nil {
			kept = info.MaxTTL
		}
	}
	return fmt.Errorf("MinHold is not over for another %v, and the store keeps the name for %v at most: %w",
		driver.ForPeople(left), driver.ForPeople(kept), err)
}

// giveBack gives back a parked lease in the background, because others want it, its MinHold is over or it was
// lost. A closed client leaves that to Close.
func (l *Lease) giveBack() {
	c := l.grant.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.returnLater(l)
	}
}

// returnLater gives back a parked lease in the background, and returns a channel that is closed
// when that is over. The caller holds Client.mu, and the client is not closed.
func (c *Client) returnLater(l *Lease) <-chan struct{} {
	if l.returned == nil {
		l.returned = make(chan struct{})
		c.background.Go(func() {
			defer close(l.returned)
			// The observer hears an error, and the client repeats the request.
			_ = l.Release(context.Background())
		})
	}
	return l.returned
}

// reuse returns a lease for a call from an idle one, or nil. The caller holds Client.mu, and
// the client is not closed.
func (c *Client) reuse(ln *queue, call Call) *Lease {
	idle := ln.Holder()
	if idle == nil || !idle.idle || call.Kind != line.Exclusive || !ln.Quiet(idle) {
		return nil
	}
	l := idle.heir(call)
	if l == nil {
		return nil
	}
	ln.Hold(l)
	c.observer.Acquired(l, l.began.Sub(call.Began))
	return l
}

// wanted notes that others want the name. If nobody uses the grant, the client gives it back.
func (g *grant) wanted() {
	g.mu.Lock()
	l := g.present
	unused := l.trust.Wanted(driver.Now())
	g.mu.Unlock()
	if unused {
		l.giveBack()
	}
}
