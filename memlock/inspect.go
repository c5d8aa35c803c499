// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Inspect implements driver.Inspector.
func (p *participant) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := p.usable(ctx); err != nil {
		return nil, err
	}
	l := s.locks[name]
	if l == nil {
		return &driver.Info{Name: name}, nil
	}
	now := driver.Now()
	s.settle(l, now)
	return l.info(now, true), nil
}

// List implements driver.Inspector.
func (p *participant) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := p.usable(ctx); err != nil {
		return nil, err
	}
	now := driver.Now()
	var list []*driver.Info
	for name, l := range s.locks {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		// A free name has no waiters, so its holders say it all.
		if s.settle(l, now); len(l.holders) > 0 {
			list = append(list, l.info(now, true))
		}
	}
	slices.SortFunc(list, func(a, b *driver.Info) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Break implements driver.Inspector.
func (p *participant) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := p.usable(ctx); err != nil {
		return err
	}
	l := s.locks[name]
	if l == nil {
		return driver.ErrReleased
	}
	now := driver.Now()
	s.settle(l, now)
	g := l.holder(lease)
	switch {
	case len(l.holders) == 0:
		return driver.ErrReleased
	case g == nil:
		return &driver.HeldError{Info: l.info(now, false)}
	}
	g.lose(&driver.LostError{Reason: driver.Broken, By: by, Why: why})
	l.remove(g, now)
	return nil
}

// info describes a settled lock. The queue is left out where only holders
// matter, since it may be long.
func (l *lock) info(now driver.Instant, queue bool) *driver.Info {
	wall := time.Now().Round(0)
	at := func(i driver.Instant) time.Time { return wall.Add(i.Sub(now)) }
	info := &driver.Info{Name: l.name, Token: driver.Token(l.token)}
	for _, g := range l.holders {
		h := driver.Held{
			Holder: *g.holder, Lease: g.lease, Token: driver.Token(g.token), Why: g.why, Acquired: at(g.acquired),
			Shared: g.shared, Slots: g.slots, Keeps: g.keeps,
		}
		if !g.owner.store.NoExpiry {
			h.Renewed, h.Expires = at(g.since), at(g.expires())
		}
		info.Holders = append(info.Holders, h)
	}
	if queue {
		for w := l.head; w != nil; w = w.next {
			info.Waiters = append(info.Waiters, driver.Waiter{
				Holder: *w.req.Holder, Lease: w.req.Lease, Since: at(w.since), Why: w.req.Why,
				Shared: w.req.Shared, Slots: w.req.Slots, Holds: slices.Clone(w.req.Holds),
			})
		}
	}
	return info
}
