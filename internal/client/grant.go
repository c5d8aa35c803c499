// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/schedule"
	"github.com/pawl-go/pawl/internal/trust"
)

// grant is a grant of the store. One lease of this client after another has it, by
// hand-over. Package trust decides what happens to it; this file carries that out.
type grant struct {
	client *Client
	remote *participant.Lease // the lease at the store
	name   string
	id     string

	item schedule.Item[*grant]

	mu      sync.Mutex    // guards the fields below, and the fields of all its leases
	present *Lease        // has the grant now
	free    chan struct{} // closed when the request under way has ended; nil if nobody waits for that

	first Lease
}

// ends ends the lease if an event does, and reports whether it has.
func (l *Lease) ends(event func(*trust.Lease) bool) bool {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	ended := event(&l.trust)
	if ended {
		l.finish()
	}
	return ended
}

// check ends the lease, as lost, if its deadline has passed.
func (l *Lease) check() {
	l.tellLoss(l.ends(func(t *trust.Lease) bool { return t.Look(driver.Now()) }))
}

// Lose ends the lease as lost.
func (l *Lease) Lose(cause *driver.LostError) {
	l.tellLoss(l.ends(func(t *trust.Lease) bool { return t.Lose(cause) }))
}

// lose ends, as lost, the lease that has the grant.
func (g *grant) lose(cause *driver.LostError) {
	g.mu.Lock()
	l := g.present
	lost := l.trust.Lose(cause)
	if lost {
		l.finish()
	}
	g.mu.Unlock()
	l.tellLoss(lost)
}

// end ends the lease because it is given back. It reports false if it had ended before.
func (l *Lease) end() bool {
	ended := l.ends((*trust.Lease).End)
	if ended {
		l.grant.client.sched.Remove(&l.grant.item)
		l.tell()
	}
	return ended
}

// finish records the end of a lease. The caller holds grant.mu, and then calls tell
// without it.
func (l *Lease) finish() {
	if l.done != nil {
		close(l.done)
	}
}

// tell ends the contexts of a lease that has ended. The caller holds no lock, because the
// contexts ask the lease.
func (l *Lease) tell() {
	l.grant.mu.Lock()
	bound, cause := l.bound, l.trust.Ended()
	l.bound = nil
	l.grant.mu.Unlock()
	for ctx := range bound {
		ctx.cancel(l.wrap("", cause))
	}
}

// handOver ends l and hands its grant over to the next waiter of this client. It reports
// false, and changes nothing, if that is not possible without the store.
func (l *Lease) handOver() bool {
	if !locked(l, (*trust.Lease).Reserves) || !l.grant.remote.Lives() {
		return false
	}
	w, heir := l.inherit()
	if heir == nil {
		return false
	}
	l.tell()
	w.turn <- heir
	return true
}

// inherit takes the next waiter out of the line and makes its lease. It returns nil if no
// waiter can take the grant over.
func (l *Lease) inherit() (*waiter, *Lease) {
	c := l.grant.client
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[l.grant.name]
	if ln == nil || c.closed {
		return nil, nil
	}
	p := ln.Heir(l)
	if p == nil {
		return nil, nil
	}
	heir := l.heir(p.Of.call)
	if heir == nil {
		return nil, nil
	}
	ln.Inherit(p, heir)
	c.advance(l.grant.name, ln) // a reader behind that waiter is first now, and asks the store
	c.observer.Released(l, nil, false)
	c.observer.Acquired(heir, heir.began.Sub(p.Of.call.Began)) // before tellLoss can report its loss
	return p.Of, heir
}

// heir ends l and makes the lease that has the grant next. It returns nil if the waiter
// needs a grant of its own.
func (l *Lease) heir(call Call) *Lease {
	g := l.grant
	now := driver.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := l.trust.HandOver(call.Terms, now, g.client.random.chance())
	if !ok {
		return nil
	}
	h := &Lease{grant: g, token: l.token + 1, began: now, asked: call.Asked, trust: t, reused: l.idle}
	g.present = h
	l.finish()
	if l.idle {
		l.given = true // a late Release need not wait
	}
	g.client.sched.WakeAt(&g.item, t.Due())
	return h
}

// RoundTrips is how many round trips a TTL should have room for. A renewal is due after a third of the TTL,
// may take two requests, and should be confirmed before two thirds are over.
const RoundTrips = 6

// measure warns, once for a client, if the store answers too slowly for leases of ttl. It measures one request,
// because a slow grant may have waited for a connection or in a queue.
func (c *Client) measure(name string, ttl time.Duration) {
	if !c.participant.Caps().Shows || c.measured.Swap(true) {
		return
	}
	c.background.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, ttl)
		defer cancel()
		began := driver.Now()
		_, err := c.participant.Inspect(ctx, name)
		if err == nil || ctx.Err() != nil && c.ctx.Err() == nil {
			c.observer.Answered(driver.Now().Sub(began), ttl)
		}
	})
}
