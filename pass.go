// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// maxPasses bounds how often in a row the store passes a lease from one waiter of
	// this client to the next before the waiters of others get their chance.
	maxPasses = 16

	// For so long a grant goes from one waiter of this client to the next without a
	// word to the store, if others may wait for the name, and if not.
	shortTurn = time.Millisecond
	longTurn  = 4 * time.Millisecond

	// firstNeed is the least time with which a lease that is renewed is passed on.
	firstNeed = 500 * time.Millisecond
)

// tenure is a grant that goes from lease to lease: the store sees one, with the id and
// the record of the first, and each of the leases has a token of its own from those that
// are set aside for the grant. Answers to renewals, and news, are about the grant, so
// they are for the lease that has it when they come.
type tenure struct {
	holder atomic.Pointer[Lease] // changed while its mu is held

	left  uint64         // tokens; guarded by the holder's mu
	until driver.Instant // the end of the client's turn
}

// inherit passes the grant of l on to the next waiter of the client, if that may be
// done without the store. It ends l, and reports whether it has.
func (l *Lease) inherit() bool {
	c := l.client
	c.mu.Lock()
	ln := c.lines[l.name]
	if ln == nil || ln.holder != l || ln.asking > 0 || ln.waiters.Len() == 0 || c.closed {
		c.mu.Unlock()
		return false
	}
	w := ln.waiters.Front().Value.(*waiter)
	next, contexts := l.heir(w)
	if next == nil {
		c.mu.Unlock()
		return false
	}
	ln.call(ln.waiters.Front())
	ln.holder = next
	c.replace(l, next)
	c.observer.released(l, nil)
	c.observer.acquired(next, next.began.Sub(w.set.began)) // before it is lost, see lose
	c.mu.Unlock()
	l.tell(contexts)
	w.turn <- next
	return true
}

// heir ends l and makes the lease of w, which has the grant from then on, with the
// same trust window. It returns nil if w is to have another: one that says what it is for,
// has tokens left, and enough time: half of its TTL, or half a second if it is renewed
// soon.
func (l *Lease) heir(w *waiter) (*Lease, map[*leaseContext]struct{}) {
	now := driver.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.stay()
	if t == nil {
		return nil, nil
	}
	need := w.set.ttl / 2
	if !w.set.noRenew {
		need = min(need, firstNeed)
	}
	fresh := now.Add(need) < l.since.Add(w.set.ttl-driver.Drift(w.set.ttl))
	if t.left == 0 || now >= t.until || now >= l.deadline() || l.state != Held || l.lowering ||
		w.set.why != l.why || w.set.ttl > l.ttl || !fresh {
		return nil, nil
	}
	t.left--
	h := l.client.newLease(w.req, w.set, l.grant, now)
	h.id, h.token, h.tenure = l.id, l.token+1, t
	h.since, h.renewAt, h.suspectAt = l.since, l.renewAt, l.suspectAt
	if h.ttl != l.ttl || h.fixed != l.fixed || l.renewAt == never { // or a renewal is about to be sent for l, and is not
		h.confirmed(l.since)
	}
	// A request that is under way renews the grant for whoever has it then.
	h.asking, h.free, l.free = l.asking, l.free, nil
	h.due = min(h.deadline(), h.renewAt, h.suspectAt)
	l.client.sched.replace(l, h)
	t.holder.Store(h) // only now: what loses h has it watched over no more
	return h, l.finish(Released, ErrReleased)
}

// stay returns the tenure of l's grant, which begins with it, or nil if that comes
// without other tokens. l.mu is held.
func (l *Lease) stay() *tenure {
	r, ok := l.grant.(driver.Reserver)
	if l.tenure != nil || !ok {
		return l.tenure
	}
	left, others := r.Reserved()
	turn := longTurn
	if others {
		turn = shortTurn
	}
	l.tenure = &tenure{left: left, until: l.began.Add(turn)}
	l.tenure.holder.Store(l)
	return l.tenure
}

// others reports whether somebody of another client may wait, so that the store has
// to be told.
func (l *Lease) others() bool {
	r, ok := l.grant.(driver.Reserver)
	if !ok {
		return false
	}
	_, others := r.Reserved()
	return others
}

// present returns the lease that has the grant of l now, with its mu held.
func (l *Lease) present() *Lease {
	for {
		l.mu.Lock()
		if l.tenure == nil {
			return l
		}
		h := l.tenure.holder.Load()
		if h == l {
			return l
		}
		l.mu.Unlock()
		l = h
	}
}

// loseGrant loses the lease that has the grant of l now.
func (l *Lease) loseGrant(cause *LostError) {
	for {
		h := l.present()
		h.mu.Unlock()
		// If it is passed on meanwhile, this does nothing.
		h.lose(cause)
		h.mu.Lock()
		last := h.tenure == nil || h.tenure.holder.Load() == h
		h.mu.Unlock()
		if last {
			return
		}
	}
}

// handOver ends the grant of a released lease: it passes it on to the next
// waiter of this client if it can, and else gives it back to the store and lets
// the next one ask.
func (c *Client) handOver(ctx context.Context, l *Lease) error {
	passer, _ := l.grant.(driver.Passer)
	next := c.successor(l, passer)
	if next == nil {
		err := c.giveBack(ctx, l.grant)
		c.leave(l)
		return err
	}
	next.req.Lease = newID()
	grant, err := passer.Pass(ctx, next.req)
	if err == nil {
		successor := c.lease(next.req, next.set, grant)
		c.settle(successor)
		next.turn <- successor
		return nil
	}
	// The grant is still l's, or its Release undoes what became of it. The waiter
	// keeps its turn and asks the store, under a new id: a release that is
	// repeated late must not take its lease for the one to be undone.
	next.req = renamed(next.req)
	err = c.giveBack(ctx, l.grant)
	c.mu.Lock()
	c.line(l.name).ask(exclusive) // even if others are there by now: it came first
	c.mu.Unlock()
	c.leave(l)
	next.turn <- nil
	return err
}

// successor calls the waiter to whom l is to be passed on, or returns nil.
func (c *Client) successor(l *Lease, passer driver.Passer) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[l.name]
	if passer == nil || ln == nil || ln.holder != l || ln.asking > 0 || ln.passes >= maxPasses || c.closed || l.others() {
		return nil
	}
	// With nobody at the store, only who wants an exclusive lease waits here.
	first := ln.waiters.Front()
	if first == nil {
		return nil
	}
	ln.passes++
	return ln.call(first)
}
