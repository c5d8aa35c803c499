// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
)

// KeepIdle keeps what the store has granted for up to d after Release, for the next call of
// this client for the same name, which then costs no request at all. For its holder the
// lease ends with Release as ever, which returns at once. As soon as another client wants
// the name, the store tells this one, which gives it back.
//
// Exclusion does not depend on that message. A kept lease is not renewed. It is used again,
// with the next token, only while more than half of its TTL is left, for at most a TTL after
// the grant, and by a call with the same Why and no longer TTL; else the client gives it back
// and asks the store. If the message is lost, or the process ends or is stopped, the others
// wait until the lease ends, as for a holder: at most one TTL.
//
// TryAcquire of another client asks again for a tenth of a second and the time of four
// requests, 1.1 s at most, before it returns ErrHeld because of a lease that may be kept. The first lease of a new client may not be kept, as
// it does not hear messages yet. Programs that lock the same key without pawl cannot
// ask for it, and find it held for up to d; on etcd those that wait can.
//
// It is for exclusive leases. A call returns an error that wraps errors.ErrUnsupported if
// the store cannot tell the holder: redislock (but not with Mode Efficiency), pglock,
// etcdlock and memlock can.
// Zero keeps nothing; a negative d is an error.
func KeepIdle(d time.Duration) Option { return keepIdleOption(d) }

func (c *Client) checkKeepIdle(s settings) error {
	switch {
	case s.keepIdle == 0:
		return nil
	case s.keepIdle < 0:
		return fmt.Errorf("KeepIdle %v is negative: use a positive duration, or leave it out", s.keepIdle)
	case s.kind() != line.Exclusive:
		return errors.New("KeepIdle with Shared or Slots: only exclusive leases are kept; leave one out")
	case s.minHold > 0:
		return errors.New("KeepIdle and MinHold together: one keeps the name from others, the other gives it to them; leave one out")
	}
	if !c.store.Caps().Keeps {
		return fmt.Errorf("KeepIdle: this store cannot tell a holder that others want the name; redislock (not with Mode Efficiency), pglock, etcdlock and memlock can: %w", errors.ErrUnsupported)
	}
	return nil
}

// keepIdle ends l, which is being released, and keeps its grant as another lease, which
// nobody has. It reports whether it did.
func (l *Lease) keepIdle() bool {
	if !l.grant.reserves() || !l.becomesIdle() {
		return false
	}
	l.tell()
	return true
}

func (l *Lease) becomesIdle() bool {
	c, g := l.grant.client, l.grant
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[g.name]
	if ln == nil || !ln.Quiet(l) || c.closed { // whoever waits comes first
		return false
	}
	idle := l.idles()
	if idle == nil {
		return false
	}
	ln.Hold(idle)
	c.observer.kept(l)
	return true
}

// idles makes the lease that keeps the grant of l, or returns nil.
func (l *Lease) idles() *Lease {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := l.trust.Idle(driver.Now())
	if !ok {
		return nil
	}
	idle := &Lease{grant: g, token: l.token, began: l.began, asked: l.asked, resting: true, idle: true, trust: t}
	g.present = idle
	l.finish()
	g.client.sched.WakeAt(&g.item, t.Due())
	return idle
}

// reuse returns the lease of a call for a name that is kept, or nil. The caller holds
// Client.mu, and the client is not closed.
func (c *Client) reuse(ln *queue, set settings) *Lease {
	idle := ln.Holder()
	if idle == nil || !idle.idle || set.kind() != line.Exclusive || !ln.Quiet(idle) || !idle.grant.reserves() {
		return nil
	}
	l := idle.heir(set)
	if l == nil {
		return nil
	}
	ln.Hold(l)
	c.observer.acquired(l, l.began.Sub(set.began))
	return l
}

// heed makes the client give l's grant back when others want it.
func (c *Client) heed(l *Lease) {
	if !l.grant.keeps {
		return
	}
	l.grant.remote.OnWanted(func() {
		unused := l.grant.wanted()
		c.mu.Lock()
		defer c.mu.Unlock()
		if unused != nil && !c.closed { // Close gives everything back
			c.returnLater(unused)
		}
	})
}

// wanted notes that others want the name. It returns the lease that has the grant if nobody
// uses it.
func (g *grant) wanted() *Lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.present.trust.Wanted(driver.Now()) {
		return g.present
	}
	return nil
}

// showIdle notes in what the store shows that this client keeps it and nobody uses it.
func (c *Client) showIdle(info *Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[info.Name]
	if ln == nil || ln.Holder() == nil || !ln.Holder().idle {
		return
	}
	for i := range info.Holders {
		h := &info.Holders[i]
		h.Idle = h.Lease == ln.Holder().grant.id
	}
}
