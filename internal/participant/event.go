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
	l := p.leases[e.Lease]
	switch e.Kind {
	case driver.Granted:
		p.handed(l, &e)
	case driver.Look:
		if w := waiterOf(l); w != nil {
			w.now = w.now || e.Grant.Free == 0
			w.soon, w.free = true, e.Grant.Free
			w.poke()
		}
	case driver.Lost:
		if l == nil {
			return
		}
		if w := l.waiter; w != nil { // the event may come again: the waiter asks under another id
			w.granted, w.lost = nil, true
			w.poke()
		} else { // perhaps before the answer that has granted it
			l.lose(orGone(e.Loss))
		}
	case driver.Wanted:
		if l != nil && l.wanted != nil {
			l.wanted.put()
		}
	case driver.Missed:
		p.missed(e.Concerns)
	case driver.Told:
		if p.opts.News != nil {
			p.opts.News(e.News)
		}
	}
}

func waiterOf(l *Lease) *waiter {
	if l == nil {
		return nil
	}
	return l.waiter
}

func orGone(lost *driver.LostError) *driver.LostError {
	if lost == nil {
		return &driver.LostError{Reason: driver.Gone}
	}
	return lost
}

// handed acts on an event that grants a name. The waiter decides what it is worth when it wakes: by then
// the name may be another's. The caller holds mu.
func (p *Participant) handed(l *Lease, e *driver.Event) {
	switch {
	case l == nil: // its caller has gone
		p.inBackground(func() { p.decline(driver.Ref{Name: e.Name, Lease: e.Lease, Handle: e.Grant.Handle}) })
	case l.waiter != nil && !l.waiter.lost: // else the event may be older than the loss
		l.waiter.granted = e
		l.waiter.poke()
	}
}

// decline gives back a name that was handed to a waiter that has left.
func (p *Participant) decline(l driver.Ref) {
	ctx, cancel := context.WithTimeout(p.ctx, declineTimeout)
	defer cancel()
	// If the store does not answer, the claim ends by itself.
	_, _ = p.store.End(ctx, l, driver.End{})
}

// tripsOfClaim is how many requests have to fit into what is left of a claim.
const tripsOfClaim = 3

// take makes the lease one that is held, as an event has granted it. It reports false if the waiter has to
// look: if the event came over something else than the last answer, or is older than that; if the caller
// does not renew and so needs the whole TTL of a claim, or if so little is left of the claim that a renewal
// could come too late. The caller holds mu.
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

// missed makes the waiters look, in the order in which they came, and asks for the leases whose events may
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
		l.unconfirmed = true // also if the answer that grants it is on its way
		if l.waiter != nil {
			waiters = append(waiters, l)
		}
	}
	slices.SortFunc(waiters, func(a, b *Lease) int { return cmp.Compare(a.waiter.number, b.waiter.number) })
	for _, l := range waiters {
		l.waiter.granted, l.waiter.now = nil, true // an event from before may be void by now
		l.waiter.poke()
	}
	p.confirmSoon()
}
