// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// MinHold keeps the name from others for d from the grant on, also if the lease is released
// before, so that a short job does not run again on a machine whose clock is late by less
// than d. For its holder the lease ends with Release as ever, which returns at once. The
// client goes on renewing it, gives it back when d is over, and then tells
// Observer.Released.
//
// Close of the client makes the store keep the name for what is left of d, or for the store's
// MaxTTL if that is shorter, and returns an error then. Close gives back leases on files, which
// end with their process; those on ZooKeeper end with their session. If the process ends
// without Close, the store keeps the lease for what is left of its TTL. A lease that is lost,
// and not released, is not kept for d: its work may not have been done. Nor can a store keep
// what it loses or what somebody breaks.
//
// Zero is no MinHold. A d that is negative, or longer than MaxHold or than the MaxTTL of the store,
// is an error. With NoRenew
// it is renewed all the same, once it has been released. AcquireAll counts it from the grant of
// each name.
func MinHold(d time.Duration) Option { return minHoldOption(d) }

func (s *settings) checkMinHold() error {
	switch {
	case s.minHold < 0:
		return fmt.Errorf("MinHold %v is negative: use a positive duration, or leave it out", s.minHold)
	case s.maxHold > 0 && s.minHold > s.maxHold:
		return fmt.Errorf("MinHold %v is longer than MaxHold %v: nobody may hold it for so long; make one of them the other", s.minHold, s.maxHold)
	}
	return nil
}

// checkKept returns an error if no lease in the store can last for d, a MinHold: Close could not
// leave it to the store.
func (c *Client) checkKept(ctx context.Context, d time.Duration) error {
	if d <= time.Duration(c.longest.Load()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := c.store.Describe(ctx)
	if err != nil || info.MaxTTL == 0 {
		return nil // the request for the lease says what is wrong; or no client has set MaxTTL yet
	}
	c.longest.Store(int64(info.MaxTTL))
	if d > info.MaxTTL {
		return fmt.Errorf("MinHold %v is longer than the MaxTTL of the store: use %v at most, or have the store's MaxTTL raised", d, info.MaxTTL)
	}
	return nil
}

// forgo drops the MinHold of a lease under which nobody has worked.
func (l *Lease) forgo() {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	l.trust.Forgo()
}

// forgo is for leases of which some are missing. It spares those that were held before.
func (g *Leases) forgo() {
	for _, l := range g.leases {
		if l.Holds() == 1 {
			l.forgo()
		}
	}
}

// rests ends l, which is being released, and keeps its grant as another lease, if its
// MinHold is not over. Nobody has that lease; waiters of this client see it as the holder.
func (l *Lease) rests() bool {
	c, g := l.grant.client, l.grant
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed { // nobody would give the grant back later
		return false
	}
	rest := l.rest()
	if rest == nil {
		return false
	}
	if ln := c.lines[g.name]; ln != nil && ln.Holder() == l {
		ln.Hold(rest)
	}
	return true
}

// rest makes the lease that keeps the grant of l, or returns nil.
func (l *Lease) rest() *Lease {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := l.trust.Rest(driver.Now(), g.client.random.chance())
	if !ok {
		return nil
	}
	rest := &Lease{grant: g, token: l.token, began: l.began, asked: l.asked, resting: true, trust: t}
	g.present = rest
	l.finish()
	g.client.sched.WakeAt(&g.item, t.Due())
	return rest
}

// leaves reports whether l, which is being released because the client is closed, is left
// to the store: its MinHold is not over, and the store ends it by itself.
func (l *Lease) leaves() bool {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.grant.client.guarantees.Expiry && l.trust.Early(driver.Now())
}

// prolong makes the store keep the grant of l for what is left of MinHold, as nobody will renew
// it any more.
func (l *Lease) prolong(ctx context.Context) error {
	l.grant.mu.Lock()
	left, ttl := l.trust.Short(driver.Now())
	l.grant.mu.Unlock()
	if left <= 0 {
		return nil
	}
	_, err := l.grant.remote.Renew(ctx, left)
	if err == nil || errors.Is(err, ErrLost) {
		return err
	}
	kept := ttl
	// It may be too long for the store.
	if info, no := l.grant.client.store.Describe(ctx); no == nil && ttl < info.MaxTTL && info.MaxTTL < left {
		if _, no := l.grant.remote.Renew(ctx, info.MaxTTL); no == nil {
			kept = info.MaxTTL
		}
	}
	return fmt.Errorf("MinHold is not over for another %v, and the store keeps the name for %v at most: %w",
		driver.ForPeople(left), driver.ForPeople(kept), err)
}

// restOver gives l back in the background, whose rest is over or which was lost. Close does
// so if it has begun.
func (l *Lease) restOver() {
	c := l.grant.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.returnLater(l)
	}
}

// returnLater gives a lease back that nobody has, and returns a channel that is closed
// when that is over. The caller holds Client.mu, and the client is not closed.
func (c *Client) returnLater(l *Lease) <-chan struct{} {
	if l.returned == nil {
		l.returned = make(chan struct{})
		c.background.Go(func() {
			defer close(l.returned)
			// The Observer learns of an error, and the client repeats the request.
			_ = l.Release(context.Background())
		})
	}
	return l.returned
}
