// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// grant is a lease that a quorum has granted. claim.mu guards what changes.
type grant struct {
	*claim
	token uint64
	since driver.Instant

	until driver.Instant // until which the lease is trusted
	over  bool           // released
	asked bool           // a release was sent, and no quorum answered
	loss  storekit.Loss
}

// Token returns the fencing token.
func (g *grant) Token() uint64 { return g.token }

// Since returns the instant from which the TTL counts.
func (g *grant) Since() driver.Instant { return g.since }

// Renew makes the TTL start anew. A quorum has to have the lock, and to confirm that
// while the lease is still trusted: before a later answer somebody else may have had a
// lease. Nodes that have lost the lock get it back if they may.
func (g *grant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := checkTTL(ttl, g.d.maxTTL); err != nil {
		return 0, err
	}
	if err := g.ended(); err != nil {
		return 0, err
	}
	if err := g.d.enter(ctx, timed); err != nil {
		return 0, err
	}
	defer g.d.leave(timed)
	since := driver.Now()
	if err := g.heal(ctx, ttl); err != nil {
		return 0, err
	}
	return since, g.extended(since, ttl)
}

// heal returns nil if a quorum has the lock, for ttl from now at least.
func (g *grant) heal(ctx context.Context, ttl time.Duration) error {
	answers := g.propose(nodewire.Heal, g.token, ttl)
	if answers == nil {
		return driver.ErrReleased
	}
	t, v, err := g.d.count(ctx, g.shared, answers, ttl, (*tally).forExtension)
	if len(t.ended) > 0 {
		return g.lose(storekit.HowLost(t.ended[0].News))
	}
	switch {
	case err != nil:
		return err
	case v == won:
		return nil
	case len(t.others)+t.free > len(g.d.members)-g.d.quorum:
		return g.lose(&driver.LostError{Reason: driver.Gone})
	}
	if no := t.failed.disagreement(); no != nil {
		return no
	}
	return fmt.Errorf("%w: %d of %d nodes have extended the lease, and %d have to: %v",
		driver.ErrUncertain, t.has.n, len(g.d.members), g.d.quorum, t.failed)
}

// extended records an extension that a quorum has just confirmed.
func (g *grant) extended(since driver.Instant, ttl time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := driver.Now(); now >= g.until || now >= trust(since, ttl) {
		return &driver.LostError{Reason: driver.Expired}
	}
	g.until = max(g.until, trust(since, ttl))
	return nil
}

// ended returns why the grant has ended, as far as this participant knows.
func (g *grant) ended() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over:
		return driver.ErrReleased
	case g.loss.Err() != nil:
		return g.loss.Err()
	case driver.Now() >= g.until:
		return &driver.LostError{Reason: driver.Expired}
	}
	return nil
}

func (g *grant) lose(why *driver.LostError) error {
	g.d.forget(g)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loss.Note(why)
}

// OnLost calls f when the lease has been lost.
func (g *grant) OnLost(f func(error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loss.Err() == nil {
		if g.over || g.asked {
			return
		}
		g.d.mu.Lock()
		g.d.held[g.lease] = g
		g.d.mu.Unlock()
	}
	g.loss.OnLost(f)
}

// broken handles the news that a lease was broken. Each node sends it.
func (d *Driver) broken(lease, news string) {
	d.mu.Lock()
	g := d.held[lease]
	delete(d.held, lease)
	d.mu.Unlock()
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.loss.Tell(storekit.HowLost(news))
	}
}

// forget no longer notifies g of its end.
func (d *Driver) forget(g *grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.held, g.lease)
}

// Release ends the lease. It returns when a quorum has answered, and goes on
// with the others in the background.
func (g *grant) Release(ctx context.Context) error {
	if err := g.d.enter(ctx, ending); err != nil {
		return err
	}
	defer g.d.leave(ending)
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		return nil
	}
	again, until := g.asked, g.until
	g.asked = true
	g.loss.Hush()
	if !again && !g.shared {
		g.next = g.d.nextToken(g.token)
	}
	g.mu.Unlock()
	g.d.forget(g)
	had, err := g.awaitEnd(ctx, g.end(""))
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if !had && !again {
		switch {
		case g.loss.Err() != nil:
			return g.loss.Err()
		case driver.Now() >= until:
			return &driver.LostError{Reason: driver.Expired}
		}
		return &driver.LostError{Reason: driver.Gone}
	}
	return nil
}

// awaitEnd waits until a quorum has answered, and reports whether a quorum may have
// had the lock. Nodes that were not told do not have it.
func (c *claim) awaitEnd(ctx context.Context, answers <-chan ended) (had bool, err error) {
	n, q := len(c.d.members), c.d.quorum
	free := n - cap(answers)
	missing, answered := free, 0
	var failed misses
	for answered < q && free+answered+len(failed) < n {
		select {
		case a := <-answers:
			if a.err != nil {
				if failed.add(c.d.members[a.node], a.err); len(failed) > n-q {
					return false, unheard(failed.err(c.d, 0))
				}
				continue
			}
			answered++
			if !a.had {
				missing++
			}
			if a.next {
				c.d.handOver(c.name, c.next)
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return missing <= n-q, nil
}

// unheard makes err one of a request that may have been carried out.
func unheard(err error) error { return fmt.Errorf("%w: %v", driver.ErrUncertain, err) }

// left returns the TTL that keeps the lease for as long as it is trusted, and no longer.
func (g *grant) left() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.until.Sub(driver.Now())
	if left <= 0 {
		return 0
	}
	return min((left+driver.Drift(0))*100/99, g.d.maxTTL)
}
