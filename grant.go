// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/schedule"
	"github.com/pawl-go/pawl/internal/trust"
)

// grant is a grant of the store, which goes from lease to lease: see package trust, that
// decides. Here is what does it.
type grant struct {
	client *Client
	store  driver.Grant
	name   string
	id     string

	prev, next *grant // in Client.open, guarded by Client.mu
	item       schedule.Item[*grant]

	mu      sync.Mutex    // guards the fields below, and those of all its leases
	present *Lease        // which has the grant now
	free    chan struct{} // closed when the request that is under way has ended; nil if nobody waits for that

	first Lease
}

// lease makes the first lease of a grant.
func (c *Client) lease(req *driver.Request, set settings, store driver.Grant) *Lease {
	g := &grant{client: c, store: store, name: req.Name, id: req.Lease}
	terms := trust.Grant{Expires: c.guarantees.Expiry, Since: store.Since()}
	if r, ok := store.(driver.Reserver); ok {
		terms.Tokens, terms.Others = r.Reserved()
	}
	now := driver.Now()
	g.item.Of, g.present = g, &g.first
	g.first = Lease{grant: g, token: Token(store.Token()), began: now, trust: trust.Begin(set.terms(), terms, now, c.random.chance())}
	c.observer.acquired(&g.first, now.Sub(set.began))
	return &g.first
}

// wake does what is due at now.
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
}

// carryOut notes what an event has led to, and sets when the grant has to be woken. All
// that may block or call back is left to tellLoss, which has to follow. g.mu is held, so that
// no earlier time is overwritten by a later one.
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

// tellLoss tells everybody if the lease has just been lost.
func (l *Lease) tellLoss(do trust.Action) {
	if !do.Lost {
		return
	}
	c := l.grant.client
	c.sched.Remove(&l.grant.item)
	l.tell()
	c.leave(l)
	c.observer.lost(l, l.ended())
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

// lose ends the lease without us.
func (l *Lease) lose(cause *LostError) {
	l.grant.mu.Lock()
	lost := l.trust.Lose(cause)
	if lost {
		l.finish()
	}
	l.grant.mu.Unlock()
	l.tellLoss(trust.Action{Lost: lost})
}

// lose ends the lease that has the grant.
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

// finish notes the end of a lease. Its contexts have to be told. grant.mu is held.
func (l *Lease) finish() {
	if l.done != nil {
		close(l.done)
	}
}

// tell ends the contexts of a lease that has ended, without a lock: they ask the lease.
func (l *Lease) tell() {
	l.grant.mu.Lock()
	contexts, cause := l.contexts, l.trust.Ended()
	l.contexts = nil
	l.grant.mu.Unlock()
	for c := range contexts {
		c.cancel(&Error{"hold", l.grant.name, cause})
	}
}

// ended returns why the lease ended, or nil, without a look at the clock.
func (l *Lease) ended() error {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.trust.Ended()
}
