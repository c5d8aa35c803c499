// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// hear acts on one event of the store.
func (p *Participant) hear(e driver.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch l := p.leases[e.Lease]; {
	case e.Kind == driver.Missed:
		p.missed(e.Concerns)
	case e.Kind == driver.Told && p.opts.News != nil:
		p.opts.News(e.News)
	case l == nil && e.Kind == driver.Granted: // the caller has gone
		p.inBackground(func() { p.decline(driver.Ref{Name: e.Name, Lease: e.Lease, Handle: e.Grant.Handle}) })
	case l == nil:
	case e.Kind == driver.Wanted && l.wanted != nil:
		l.wanted.put()
	case l.waiter != nil:
		l.waiter.hear(&e)
	case e.Kind == driver.Lost: // the answer that grants it may come later
		l.lose(cmp.Or(e.Loss, &driver.LostError{Reason: driver.Gone}))
	}
}

// hear acts on one event about a waiter. The caller holds mu.
func (w *waiter) hear(e *driver.Event) {
	switch e.Kind {
	case driver.Granted:
		// The waiter decides when it wakes whether it may trust the event: by then another client may have the name.
		// After a loss the event may be older than the loss.
		if w.lost {
			return
		}
		w.granted = e
	case driver.Look:
		w.now = w.now || e.Grant.Free == 0
		w.soon, w.free = true, e.Grant.Free
	case driver.Lost: // the waiter asks again with another id, because the event may be repeated
		w.granted, w.lost = nil, true
	}
	w.poke()
}

// decline gives back a name that was handed to a waiter that has left.
func (p *Participant) decline(l driver.Ref) {
	ctx, cancel := context.WithTimeout(p.ctx, declineTimeout)
	defer cancel()
	// If the store does not answer, the claim ends by itself.
	_, _ = p.store.End(ctx, l, driver.End{})
}

// tripsOfClaim is how many requests must fit into the rest of a claim, so that its renewal comes in time.
const tripsOfClaim = 3

// take holds the lease that an event has granted. It reports false if the waiter has to look instead:
//   - the event came over another connection than the last answer, or is older than that answer;
//   - the event grants a claim, and the caller does not renew, or a renewal could come too late.
//
// The caller holds mu.
func (a *attempt) take(e *driver.Event) bool {
	if e.Grant.Session == nil || e.Grant.Session != a.seen.session {
		return false
	}
	if e.Grant.Since != 0 {
		if cmp.Or(e.Heard, e.Grant.Since) < a.seen.began {
			return false
		}
		a.hold(&e.Grant, term{sent: e.Grant.Since, heard: driver.Now(), ttl: a.ttl}, e.Grant.Since)
		return true
	}
	if !a.req.Renewed {
		return false
	}
	c := claim{at: e.Grant.At, lasts: e.For, heard: e.Heard}
	now := driver.Now()
	t, ok := c.term(a.seen, a.ttl, now)
	since := t.counts(a.ttl)
	if !ok || since.Add(a.ttl).Sub(now) < tripsOfClaim*a.seen.took {
		return false
	}
	a.hold(&e.Grant, t, since)
	return true
}

// missed makes the waiters look, in the order in which they came, and confirms the leases whose events may
// have been lost. The caller holds mu.
func (p *Participant) missed(concerns func(name string) bool) {
	var waiters []*Lease
	for _, l := range p.leases {
		if concerns != nil && !concerns(l.ref.Name) {
			continue
		}
		if l.wanted != nil {
			l.wanted.put()
		}
		l.unconfirmed = true // even if the answer that grants it is still on its way
		if l.waiter != nil {
			waiters = append(waiters, l)
		}
	}
	slices.SortFunc(waiters, func(a, b *Lease) int { return cmp.Compare(a.waiter.number, b.waiter.number) })
	for _, l := range waiters {
		l.waiter.granted, l.waiter.now = nil, true // an earlier grant may no longer hold
		l.waiter.poke()
	}
	p.confirmSoon()
}
