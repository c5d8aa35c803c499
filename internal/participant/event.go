// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
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
			w.soon, w.free = true, e.Grant.Free
			w.poke()
		}
	case driver.Lost:
		if l == nil {
			return
		}
		if w := l.waiter; w != nil { // it looks, and finds out
			w.granted, w.now = nil, true
			w.poke()
		} else { // perhaps before the answer that has granted it
			l.lose(orGone(e.Loss))
		}
	case driver.Wanted:
		if l != nil && l.wanted != nil {
			how := driver.Asks
			if e.Waits {
				how = driver.Waits
			}
			l.wanted.Put(how)
		}
	case driver.Missed:
		p.missed(e.Concerns)
	case driver.Told:
		p.news.Put(e.News)
	}
}

func waiterOf(l *lease) *waiter {
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
func (p *Participant) handed(l *lease, e *driver.Event) {
	switch {
	case l == nil: // its caller has gone
		p.inBackground(func() { p.decline(driver.Ref{Name: e.Name, Lease: e.Lease, Handle: e.Grant.Handle}) })
	case l.waiter != nil:
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

// take makes the lease one that is held, as an event has granted it. It reports false if the waiter has to
// look: if the caller does not renew and so needs the whole TTL, if the event came over something else
// than the last answer, or if too little is left of the claim. The caller holds mu.
func (a *attempt) take(e *driver.Event) bool {
	if e.Grant.Since != 0 {
		a.hold(&e.Grant, storekit.Term{Sent: e.Grant.Since, Heard: driver.Now(), TTL: a.ttl}, e.Grant.Since)
		return true
	}
	if !a.req.Renewed || e.Grant.Session == nil || e.Grant.Session != a.seen.session {
		return false
	}
	claim := storekit.Claim{At: e.Grant.At, For: e.For, Heard: e.Heard}
	t, ok := claim.Term(a.seen.Look, a.ttl, driver.Now())
	if ok {
		a.hold(&e.Grant, t, t.Since(a.ttl))
	}
	return ok
}

// missed makes the waiters look and asks for the leases whose events may have been lost. The caller holds
// mu.
func (p *Participant) missed(concerns func(name string) bool) {
	var all []*lease
	for _, l := range p.leases {
		if concerns != nil && !concerns(l.ref.Name) {
			continue
		}
		if l.wanted != nil {
			l.wanted.Put(driver.Unheard)
		}
		switch {
		case l.waiter != nil:
			l.waiter.now = true
			l.waiter.poke()
		case l.state == held:
			all = append(all, l)
		}
	}
	if len(all) > 0 {
		p.inBackground(func() {
			storekit.Confirm(p.ctx, askAtOnce, all, func(ctx context.Context, l *lease) bool { return l.confirm(ctx) })
		})
	}
}
