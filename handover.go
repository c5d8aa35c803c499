// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/trust"
)

// letGo takes back one hold. If another call releases the lease already, it also
// returns a channel that is closed when that call has ended.
func (l *Lease) letGo() (trust.Giving, <-chan struct{}) {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	giving := l.trust.Release()
	if giving == trust.Again && l.back == nil {
		l.back = make(chan struct{})
		if l.given {
			close(l.back)
		}
	}
	return giving, l.back
}

// gone records that the release has ended with the result err.
func (l *Lease) gone(err error) {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	l.given, l.relErr = true, err
	if l.back != nil {
		close(l.back)
	}
}

// keep makes sure that the grant is not handed over. It reports false if the lease has
// ended.
func (l *Lease) keep() bool {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.trust.Keep()
}

// handOver hands the grant over to the next waiter of the client if that is possible
// without the store. It ends l then. It reports whether it did.
func (l *Lease) handOver() bool {
	if !l.grant.reserves() {
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

// reserves reports whether the grant may go to another lease without the store.
func (g *grant) reserves() bool {
	left, _ := g.remote.Reserved()
	return left > 0
}

// inherit takes the next waiter out of the line and makes its lease, if there is a
// waiter that can take over the grant.
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
	heir := l.heir(p.Of.set)
	if heir == nil {
		return nil, nil
	}
	ln.Inherit(p, heir)
	c.advance(l.grant.name, ln) // a reader behind that waiter is the first now, and asks the store
	c.observer.released(l, nil)
	c.observer.acquired(heir, heir.began.Sub(p.Of.set.began)) // before a loss can be reported, see tellLoss
	return p.Of, heir
}

// heir ends l and makes the lease that has the grant from then on. It returns nil if the
// waiter needs a grant of its own.
func (l *Lease) heir(set settings) *Lease {
	g := l.grant
	now := driver.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := l.trust.HandOver(set.terms(), now, g.client.random.chance())
	if !ok {
		return nil
	}
	h := &Lease{grant: g, token: l.token + 1, began: now, asked: set.asked(), trust: t, reused: l.idle}
	g.present = h
	l.finish()
	if l.idle {
		l.given = true // a Release that comes late has nothing to wait for
	}
	g.client.sched.WakeAt(&g.item, t.Due())
	return h
}
