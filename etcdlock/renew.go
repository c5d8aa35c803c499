// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// maxProofs is how often a keepalive is repeated that could not be proven: the
	// leader has changed in between.
	maxProofs = 3
	// maxFlights is how many renewals of a lease are under way at a time.
	maxFlights = 4
)

// flight is a renewal that is under way: a keepalive, and the read that proves it. It goes on
// when its caller has given up, and a later call returns what it has shown. So two round trips
// may take longer than a call has time.
type flight struct {
	done  chan struct{}
	since driver.Instant // set before done is closed, as is err
	err   error
}

// Renew implements driver.Grant.
func (g *grant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if err := g.over(); err != nil {
		return 0, err
	}
	since, err := g.renew(ctx, seconds(ttl))
	if err == nil {
		g.showOnce(ctx)
		return since, nil
	}
	if lost := g.over(); lost != nil {
		return 0, lost
	}
	return 0, g.s.unrecorded(ctx, err).err
}

func (g *grant) renew(ctx context.Context, secs int64) (driver.Instant, error) {
	g.renewing.Lock()
	if secs > g.backing.seconds || g.dirty {
		defer g.renewing.Unlock()
		g.writes++ // what is under way does not count any more: the key may be bound to another etcd lease
		rctx, cancel := g.s.inTime(ctx, g.backing)
		defer cancel()
		since, err := g.rewrite(rctx, secs)
		if err == nil {
			g.told = since
		}
		return since, err
	}
	f := g.fly()
	g.renewing.Unlock()
	err := error(nil)
	select {
	case <-f.done:
		err = f.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.renewing.Lock()
	defer g.renewing.Unlock()
	if err == nil {
		g.told = max(g.told, f.since)
		return f.since, nil
	}
	if since := g.backing.since; since > g.told { // an earlier flight has arrived
		g.told = since
		return since, nil
	}
	return 0, err
}

// fly begins a flight. If there are too many it returns one that does not end. g.renewing is held.
func (g *grant) fly() *flight {
	f := &flight{done: make(chan struct{})}
	if g.flights == maxFlights {
		return f
	}
	b, writes, beside := *g.backing, g.writes, g.flights
	g.flights++
	if !g.s.background(func() {
		ctx, cancel := context.WithTimeout(g.s.ctx, b.time())
		defer cancel()
		err := g.verify(ctx, &b, beside)
		g.renewing.Lock()
		defer g.renewing.Unlock()
		g.flights--
		switch {
		case err == nil && g.writes != writes:
			err = errUnproven
		case err == nil && b.since > g.backing.since:
			g.backing.since, g.backing.asked, g.backing.term = b.since, b.asked, b.term
		}
		f.since, f.err = b.since, err
		close(f.done)
	}) {
		g.flights--
		f.err = errClosed
		close(f.done)
	}
	return f
}

// background runs f in a goroutine that Close waits for, unless the store is closed.
func (s *store) background(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Go(f)
	return true
}

// verify renews b by a keepalive and proves it by a read. See backing. Beside is how many other
// renewals of the lease are under way.
func (g *grant) verify(ctx context.Context, b *backing, beside int) error {
	for range maxProofs {
		err := b.keepAlive(ctx, g.s, beside)
		known := !unknownLease(err)
		if err != nil && known {
			return err
		}
		p, err := g.proveInTime(ctx, b)
		if err != nil {
			return err
		}
		if known && b.proven(p.term) {
			return nil
		}
	}
	return errUnproven
}

func (g *grant) proveInTime(ctx context.Context, b *backing) (*proof, error) {
	ctx, cancel := g.s.inTime(ctx, b)
	defer cancel()
	return g.prove(ctx)
}

// inTime bounds a request of a renewal. An answer that takes longer than a third of the TTL
// comes too late to keep a lease.
func (s *store) inTime(ctx context.Context, b *backing) (context.Context, context.CancelFunc) {
	sent := driver.Now()
	ctx, cancel := context.WithTimeout(ctx, b.time()/3)
	return bounded{ctx, context.Background()}, func() { s.ended(ctx, sent); cancel() }
}
