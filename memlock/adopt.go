// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var _ driver.Adopter = (*participant)(nil)

// Adopt implements driver.Adopter.
func (p *participant) Adopt(ctx context.Context, name, lease string) (driver.Grant, error) {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := p.usable(ctx); err != nil {
		return nil, err
	}
	if l := s.locks[name]; l != nil {
		s.settle(l, driver.Now())
		if g := l.holder(lease); g != nil {
			return &adopted{by: p, grant: g}, nil
		}
	}
	return nil, &driver.LostError{Reason: driver.Gone}
}

// adopted is a grant that another participant has got. Store.mu guards what changes.
type adopted struct {
	by       *participant
	grant    *grant
	released bool
}

// Token implements driver.Grant.
func (a *adopted) Token() uint64 { return a.grant.token }

// Since implements driver.Grant.
func (a *adopted) Since() driver.Instant { return 1 }

// Renew implements driver.Grant.
func (a *adopted) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	a.by.store.mu.Lock()
	defer a.by.store.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := driver.Now()
	if err := a.check(now); err != nil {
		return 0, err
	}
	if g := a.grant; now.Add(ttl) > g.expires() {
		g.since, g.ttl = now, ttl
	}
	return now, nil
}

// Release implements driver.Grant.
func (a *adopted) Release(context.Context) error {
	a.by.store.mu.Lock()
	defer a.by.store.mu.Unlock()
	if a.released {
		return nil
	}
	now := driver.Now()
	if err := a.check(now); err != nil {
		return err
	}
	a.released = true
	a.grant.lose(&driver.LostError{Reason: driver.Gone})
	a.grant.lock.remove(a.grant, now)
	return nil
}

// check returns nil if the lease still holds the name at now, and why not otherwise.
func (a *adopted) check(now driver.Instant) error {
	if a.by.crashed {
		return fmt.Errorf("memlock: crashed: %w", driver.ErrUnavailable)
	}
	a.by.store.settle(a.grant.lock, now)
	switch {
	case a.released:
		return driver.ErrReleased
	case a.grant.lost != nil:
		return a.grant.lost
	case a.grant.released:
		return &driver.LostError{Reason: driver.Gone}
	}
	return nil
}
