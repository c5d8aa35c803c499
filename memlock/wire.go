// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// wire is one participant of a store.
type wire struct {
	driver.Basic
	store   *Store
	tell    func(driver.Event)
	crashed bool
}

var errCrashed = &driver.Failure{Err: errors.New("memlock: crashed"), Lasting: true}

// Caps implements driver.Store.
func (w *wire) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{Fencing: true, FIFO: true, Expiry: !w.store.NoExpiry, Shared: true, Slots: true},
		Queue:      true, Shows: true, Keeps: !w.store.NoExpiry, Adopts: true, Downgrades: true, LongerTTL: true,
	}
}

// Listen implements driver.Store.
func (w *wire) Listen(f func(driver.Event)) { w.tell = f }

// enter locks the store for a request.
func (w *wire) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &driver.Failure{Err: err}
	}
	w.store.mu.Lock()
	if w.crashed {
		w.store.mu.Unlock()
		return errCrashed
	}
	return nil
}

// Ask implements driver.Store.
func (w *wire) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if err := w.enter(ctx); err != nil {
		return driver.Answer{}, err
	}
	s := w.store
	defer s.mu.Unlock()
	now, l := driver.Now(), s.lock(req.Name)
	s.settle(l, now)
	if h := l.holder(req.Lease); h != nil {
		return h.answer(), nil
	}
	if req.Instead != "" {
		return l.replace(w, req, now)
	}
	if err := l.otherSlots(req); err != nil {
		return driver.Answer{}, &driver.Failure{Err: err, Lasting: true}
	}
	if l.admits(req) {
		return l.grant(w, req, now).answer(), nil
	}
	rank := l.place(req.Lease)
	if rank < 0 {
		l.recall(req.Queue)
		if !req.Queue {
			return driver.Answer{Holders: l.info(now, false).Holders, Rank: 1}, nil
		}
		rank = len(l.queue)
		l.queue = append(l.queue, &waiter{w, *req, now})
	}
	return driver.Answer{Free: s.free(l, now), Session: s, Rank: rank}, nil
}

// Renew implements driver.Store.
func (w *wire) Renew(ctx context.Context, ref driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if err := w.enter(ctx); err != nil {
		return driver.Renewal{}, err
	}
	defer w.store.mu.Unlock()
	now := driver.Now()
	h := w.store.find(ref, now)
	if h == nil {
		return driver.Renewal{}, w.store.locks[ref.Name].loss(ref.Lease)
	}
	kept := now.Add(ttl) <= h.expires()
	if !kept {
		h.since, h.ttl = now, ttl
	}
	return driver.Renewal{Since: now, Kept: kept}, nil
}

// End implements driver.Store. It ignores ctx, because it never waits.
func (w *wire) End(_ context.Context, ref driver.Ref, _ driver.End) (found bool, err error) {
	if err := w.enter(context.Background()); err != nil {
		return false, err
	}
	defer w.store.mu.Unlock()
	now := driver.Now()
	l := w.store.locks[ref.Name]
	if l == nil {
		return false, nil
	}
	if h := w.store.find(ref, now); h != nil {
		l.remove(h, now)
		if h.owner != w {
			h.lose(nil)
		}
		return true, nil
	}
	i := l.place(ref.Lease)
	if i < 0 {
		return false, nil
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	l.admit(now) // waiters behind it may fit with the holders
	return true, nil
}
