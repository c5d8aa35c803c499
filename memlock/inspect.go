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

// Inspect implements driver.Store.
func (w *wire) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	s := w.store
	defer s.mu.Unlock()
	l := s.locks[name]
	if l == nil {
		return &driver.Info{Name: name}, nil
	}
	now := driver.Now()
	s.settle(l, now)
	return l.info(now, true), nil
}

// List implements driver.Store.
func (w *wire) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	s := w.store
	defer s.mu.Unlock()
	now := driver.Now()
	var list []*driver.Info
	for name, l := range s.locks {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		// A name without holders has no waiters.
		if s.settle(l, now); len(l.holders) > 0 {
			list = append(list, l.info(now, true))
		}
	}
	slices.SortFunc(list, func(a, b *driver.Info) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Break implements driver.Store.
func (w *wire) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	s := w.store
	defer s.mu.Unlock()
	l := s.locks[name]
	if l == nil {
		return driver.ErrReleased
	}
	now := driver.Now()
	s.settle(l, now)
	h := l.holder(lease)
	switch {
	case len(l.holders) == 0:
		return driver.ErrReleased
	case h == nil:
		return &driver.HeldError{Info: l.info(now, false)}
	}
	l.broken = &broken{lease, &driver.LostError{Reason: driver.Broken, By: by, Why: why}}
	h.lose(l.broken.loss)
	l.remove(h, now)
	return nil
}

// info returns the state of a settled lock. It includes the queue, which may be long, only if queue is set.
func (l *lock) info(now driver.Instant, queue bool) *driver.Info {
	wall := time.Now().Round(0)
	at := func(i driver.Instant) time.Time { return wall.Add(i.Sub(now)) }
	info := &driver.Info{Name: l.name, Token: driver.Token(l.token)}
	for _, h := range l.holders {
		held := driver.Held{
			Holder: *h.holder, Lease: h.lease, Token: driver.Token(h.token), Why: h.why, Acquired: at(h.acquired),
			Shared: h.shared, Slots: h.slots, Keeps: h.keeps,
		}
		if !h.owner.store.NoExpiry {
			held.Renewed, held.Expires = at(h.since), at(h.expires())
		}
		info.Holders = append(info.Holders, held)
	}
	if queue {
		for _, w := range l.queue {
			info.Waiters = append(info.Waiters, driver.Waiter{
				Holder: *w.req.Holder, Lease: w.req.Lease, Since: at(w.since), Why: w.req.Why,
				Shared: w.req.Shared, Slots: w.req.Slots, Holds: slices.Clone(w.req.Holds),
			})
		}
	}
	return info
}
