// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// An exclusive grant becomes a shared one, or that of the next lease, and the name is
// not free in between.

// Downgrade implements driver.Downgrader. From the first call on every proposal of the
// lease asks for a shared lock. So nodes that this call does not reach learn of it at
// the next renewal. A reader may have a quorum before that, with nodes where the lease
// has no lock; a writer has none.
func (g *grant) Downgrade(ctx context.Context) error {
	if err := g.ended(); err != nil {
		return err
	}
	g.mu.Lock()
	g.shared = true
	left := g.until.Sub(driver.Now())
	g.mu.Unlock()
	// That does not prolong the lease: a node that has lost the lock gets it for as
	// long as the lease is trusted.
	if err := g.heal(ctx, max(left+driver.Drift(left), time.Millisecond), "know that the lease is shared now"); err != nil {
		return err
	}
	return g.ended()
}

// Pass implements driver.Passer. The successor gets the lock where its predecessor
// has it, and from the others when it is renewed.
func (g *grant) Pass(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	d := g.d
	if err := d.usable(ctx, req); err != nil {
		return nil, err
	}
	if err := d.enter(ctx, d.ends); err != nil {
		return nil, err
	}
	defer d.ends.leave()
	if err := g.ended(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	shared := g.shared || req.Shared
	g.mu.Unlock()
	if shared {
		return nil, errors.New("redlock: only an exclusive lease can be passed on, to an exclusive one")
	}
	if req.Name != g.name {
		return nil, fmt.Errorf("redlock: cannot pass a lease to another name, %q", driver.Shorten(req.Name))
	}
	s := d.search(req)
	s.from, s.floor = g.lease, g.token
	next, f := s.ask(ctx)
	if f != nil {
		if f.kind == final && errors.Is(f.err, driver.ErrLost) {
			return nil, g.lose(&driver.LostError{Reason: driver.Gone})
		}
		// Some nodes may have given the lock to the successor, which has been ended:
		// the release of this grant need not find a lock there.
		g.mu.Lock()
		g.asked = true
		g.mu.Unlock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, unheard(f.err)
	}
	g.d.forget(g)
	g.mu.Lock()
	g.over = true
	g.loss.Hush()
	g.mu.Unlock()
	g.end("") // at the nodes where the successor does not have it
	return next, nil
}
