// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/schedule"
	"github.com/pawl-go/pawl/internal/trust"
)

// grant is a grant of the store. It goes from lease to lease. Package trust decides
// what happens to it; this file carries that out.
type grant struct {
	client *Client
	remote *participant.Lease // as the store knows it
	name   string
	id     string
	keeps  bool // the store tells if others want the name

	prev, next *grant // in Client.grants, guarded by Client.mu
	item       schedule.Item[*grant]

	mu      sync.Mutex    // guards the fields below, and those of all its leases
	present *Lease        // which has the grant now
	free    chan struct{} // closed when the request under way has ended; nil if nobody waits for that

	first Lease
}

// lease makes the first lease of a grant.
func (c *Client) lease(req *driver.Request, set settings, remote *participant.Lease) *Lease {
	g := &grant{client: c, remote: remote, name: req.Name, id: remote.ID(), keeps: req.Keeps}
	terms := trust.Grant{Expires: c.guarantees.Expiry, Since: remote.Since(), Recalls: req.Keeps}
	terms.Tokens, terms.Others = remote.Reserved()
	now := driver.Now()
	if took := now.Sub(max(remote.Since(), set.began)); took > set.ttl/roundTrips && c.guarantees.Expiry {
		c.measure(req.Name, set.ttl)
	}
	g.item.Of, g.present = g, &g.first
	g.first = Lease{grant: g, token: Token(remote.Token()), began: now, asked: set.asked(), trust: trust.Begin(set.terms(), terms, now, c.random.chance())}
	c.observer.acquired(&g.first, now.Sub(set.began))
	return &g.first
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
	l.tellLoss(do)
	if do.Over {
		l.restOver()
	}
}

// carryOut records the consequences of an event and sets the time at which the grant
// has to be woken. What may block or call back is left to tellLoss, which has to
// follow. The caller holds g.mu, so that a later time does not overwrite an earlier
// one.
func (l *Lease) carryOut(do trust.Action, now driver.Instant) {
	g := l.grant
	switch {
	case do.Lost:
		l.finish()
		return
	case do.Suspect != nil:
		g.client.observer.suspect(l, do.Suspect, l.trust.Deadline().Sub(now))
	}
	g.client.sched.WakeAt(&g.item, l.trust.Due())
}

// tellLoss reports to contexts and observers that the lease has just been lost, if it
// has.
func (l *Lease) tellLoss(do trust.Action) {
	if !do.Lost {
		return
	}
	c := l.grant.client
	c.sched.Remove(&l.grant.item)
	l.tell()
	c.leave(l)
	if !l.idle {
		c.observer.lost(l, l.ended())
	}
	if l.resting {
		l.restOver()
	}
}

// check loses the lease if its deadline has passed.
func (l *Lease) check() {
	l.grant.mu.Lock()
	lost := l.trust.Look(driver.Now())
	if lost {
		l.finish()
	}
	l.grant.mu.Unlock()
	l.tellLoss(trust.Action{Lost: lost})
}

// lose ends the lease as lost.
func (l *Lease) lose(cause *LostError) {
	l.grant.mu.Lock()
	lost := l.trust.Lose(cause)
	if lost {
		l.finish()
	}
	l.grant.mu.Unlock()
	l.tellLoss(trust.Action{Lost: lost})
}

// lose ends, as lost, the lease that has the grant.
func (g *grant) lose(cause *LostError) {
	g.mu.Lock()
	l := g.present
	lost := l.trust.Lose(cause)
	if lost {
		l.finish()
	}
	g.mu.Unlock()
	l.tellLoss(trust.Action{Lost: lost})
}

// end ends the lease because it is given back. It reports false if it had ended before.
func (l *Lease) end() bool {
	l.grant.mu.Lock()
	ended := l.trust.End()
	if ended {
		l.finish()
	}
	l.grant.mu.Unlock()
	if ended {
		l.grant.client.sched.Remove(&l.grant.item)
		l.tell()
	}
	return ended
}

// finish records the end of a lease. The caller holds grant.mu, and calls tell after
// that.
func (l *Lease) finish() {
	if l.done != nil {
		close(l.done)
	}
}

// tell ends the contexts of a lease that has ended. No lock may be held: the contexts
// ask the lease.
func (l *Lease) tell() {
	l.grant.mu.Lock()
	contexts, cause := l.contexts, l.trust.Ended()
	l.contexts = nil
	l.grant.mu.Unlock()
	for c := range contexts {
		c.cancel(&Error{"", l.grant.name, cause})
	}
}

// ended returns why the lease ended, or nil. It does not look at the clock.
func (l *Lease) ended() error {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.trust.Ended()
}
