// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Whoever ends a lease gives the name to the first waiter in the queue, and its client
// hears of that. Everything else here is for cases in which no message comes. All waiters
// look every lookEvery, however long the queue, as all but one may be paused. The first looks
// when the name must be free, and the others a little later, so that it comes first. A look
// repeats the request with which the waiter came; the waiter keeps its place.
//
// So a name is free for 3 s at most while a waiter reaches the server. The longest case is a
// holder that has died: a look after that offers the name to the first waiter, and a look
// after claimTTL finds that this one has not taken it.
//
// Without a connection to listen on all of them look: the first every pollFirst, those
// behind it less often. One that has not looked for pollGone is taken for gone.
const (
	lookEvery  = 2 * time.Second
	stagger    = 50 * time.Millisecond // between the looks of the waiters behind the first
	maxStagger = 10                    // waiters that look one after the other
	maxPause   = time.Second           // between attempts while the server is away

	pollFirst = 100 * time.Millisecond
	pollMost  = time.Second
	pollGone  = 2 * time.Second
)

// waiter is a call of Acquire that waits. store.mu guards all but seen.
type waiter struct {
	seen    look          // the last one that was answered
	wake    chan struct{} // has room for one: what is below has changed
	granted bool          // look at once
	handed  *handed       // the name, as the last message said
	recall  *recall       // nil unless the lease may be kept
	first   bool          // look when the name is free
	left    time.Duration // until then, when first was set
}

// Acquire implements driver.Queuer.
func (s *store) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	a := s.attempt(req)
	defer a.expectRecall()()
	wait := hears
	if !s.ear.listening() {
		// A caller that need not wait needs nobody who listens.
		g, _, f := a.ask(ctx, noWait)
		if f != nil {
			return a.undo(f)
		}
		if g != nil {
			return g, nil
		}
		var err error
		if wait, err = s.listen(ctx); err != nil {
			return nil, err
		}
	}
	w := &a.waiter
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	s.mu.Lock()
	s.waiters[req.Lease] = w
	s.mu.Unlock()
	g, f := a.wait(ctx, w, wait)
	if g != nil {
		return g, nil
	}
	s.mu.Lock()
	delete(s.waiters, req.Lease)
	s.mu.Unlock()
	return a.undo(f)
}

// wait looks until the name is granted. Before it is in the queue it returns a failure to
// the caller. After that it goes on through every failure that may pass, except a silence
// of the store for a whole TTL.
func (a *attempt) wait(ctx context.Context, w *waiter, wait int) (*grant, *failure) {
	const minPause = 10 * time.Millisecond
	queued, pause := false, minPause
	var outage driver.Outage
	for {
		began := driver.Now()
		g, t, f := a.look(ctx, wait, queued)
		var next time.Duration
		switch {
		case g != nil:
			return g, nil
		case f == nil:
			queued, pause = true, minPause
			outage.Over()
			next = t.next(wait)
		case !queued, f.lasting, ctx.Err() != nil, a.s.ctx.Err() != nil:
			f.maybe = f.maybe || queued
			return nil, f
		default:
			next, pause = pause/2+rand.N(pause/2), min(2*pause, maxPause)
			if !f.silent {
				outage.Over()
			} else if err := outage.Failed(began, a.req.TTL, f.err); err != nil {
				return nil, &failure{err: err, maybe: true}
			}
		}
		if g, f := a.sleep(ctx, w, next); g != nil || f != nil {
			return g, f
		}
	}
}

// look asks with a place in the queue. It waits no longer for the answer than a store may
// be silent.
func (a *attempt) look(ctx context.Context, wait int, queued bool) (*grant, turn, *failure) {
	if !queued {
		return a.ask(ctx, wait)
	}
	lctx, cancel := context.WithTimeout(ctx, a.req.TTL)
	defer cancel()
	g, t, f := a.ask(lctx, wait)
	if f != nil && ctx.Err() == nil && lctx.Err() != nil {
		f.silent = true
	}
	return g, t, f
}

// sleep returns when it is time to look again, or with the grant that came meanwhile.
func (a *attempt) sleep(ctx context.Context, w *waiter, d time.Duration) (*grant, *failure) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		granted, first, left := a.s.heardOf(w)
		if granted {
			return a.take(w), nil
		}
		if first {
			timer.Reset(turn{left: left}.next(hears))
		}
		select {
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, &failure{err: ctx.Err(), maybe: true}
		case <-a.s.ctx.Done():
			return nil, &failure{err: unavailable(errClosed), maybe: true, lasting: true}
		case <-w.wake:
		}
	}
}

// heardOf returns what messages have said to a waiter since the last call.
func (s *store) heardOf(w *waiter) (granted, first bool, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	granted, first = w.granted, w.first
	w.granted, w.first = false, false
	return granted, first, w.left
}

// next returns after which time to look again.
func (t turn) next(wait int) time.Duration {
	free := max(t.left, t.closed) + time.Millisecond
	if wait == looks {
		return min(pollFirst*time.Duration(t.rank+1), pollMost)/2 + rand.N(pollFirst)
	}
	if t.rank == 0 {
		return min(free, lookEvery)
	}
	behind := time.Duration(min(t.rank, maxStagger)) * stagger
	if free += behind; free < lookEvery {
		return free + rand.N(stagger)
	}
	return lookEvery - rand.N(lookEvery/4)
}

// listen returns how a caller waits, once messages can be heard or never will be.
func (s *store) listen(ctx context.Context) (wait int, err error) {
	err = s.ear.open(ctx, s)
	switch {
	case err == nil:
		return hears, nil
	case errors.Is(err, errPooled):
		return looks, nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case s.ctx.Err() != nil:
		return 0, unavailable(errClosed)
	}
	return 0, err
}
