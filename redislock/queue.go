// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// The script that ends a lease gives the lock to the first waiter in the queue and
// sends it a message. Everything else here is for cases in which no message comes. All
// waiters look every lookEvery, however long the queue, as all but one may be paused. The
// first looks when the lock must have expired, and the others a little later, so that
// it comes first. A look repeats the request with which the waiter came; the waiter
// keeps its place.
//
// So a lock is free for 3 s at most while a waiter reaches the server. The longest case is a
// holder that has died: a look after that offers the lock to the first waiter, and a look
// after claimTTL finds that this one has not taken it.
const (
	lookEvery  = 2 * time.Second
	stagger    = 50 * time.Millisecond // between the looks of the waiters behind the first
	maxStagger = 10                    // waiters that look one after the other
	maxPause   = time.Second           // between attempts while the server is away
)

// waiter is a call of Acquire that waits. store.mu guards all but the first two.
type waiter struct {
	subscription *conn.Subscription
	recall       *recall       // nil unless the lease may be kept
	seen         look          // the last one that was answered
	wake         chan struct{} // has room for one: what is below has changed; nil before it sleeps
	granted      bool          // look at once
	handed       *handed       // the lock, as the last message said
	first        bool          // look at expires
	expires      time.Duration // of the lock, when first was set; negative if it has no end
}

// Acquire implements driver.Queuer.
func (s *store) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	a := s.attempt(req)
	defer a.expectRecall()()
	sub := s.server.Subscription(a.key)
	defer s.server.Leave(a.key)
	open, news, _ := sub.State()
	if !open {
		// There is no subscription yet. A caller that need not wait does not need one.
		g, _, fail := a.ask(ctx, false)
		if fail != nil && !fail.Moving {
			return a.undo(ctx, fail)
		}
		if g != nil {
			return g, nil
		}
		if fail := s.awaitMessages(ctx, sub, news); fail != nil {
			return nil, fail.Err
		}
	}
	w := &a.waiter
	s.mu.Lock()
	w.subscription = sub
	s.waiters[req.Lease] = w
	s.mu.Unlock()
	g, fail := a.wait(ctx, w)
	if g != nil {
		return g, nil
	}
	s.mu.Lock()
	delete(s.waiters, req.Lease)
	s.mu.Unlock()
	return a.undo(ctx, fail)
}

// wait looks until the lock is granted. Before it is in the queue it returns a failure
// to the caller, unless a slot is moving. After that it goes on through every failure
// that may pass, except a silence of the store for a whole TTL.
func (a *attempt) wait(ctx context.Context, w *waiter) (*grant, *conn.Failure) {
	const minPause = 10 * time.Millisecond
	queued, pause := false, minPause
	var silent driver.Instant // since when the store has not answered; 0 if it has
	for {
		began := driver.Now()
		g, t, fail := a.look(ctx, queued, cmp.Or(silent, began))
		var next time.Duration
		switch {
		case g != nil:
			return g, nil
		case fail == nil:
			queued, pause, silent = true, minPause, 0
			next = t.next()
			if a.s.layout.Pattern != "" && t.rank == 0 && foreign(t.value) {
				next = min(next, foreignLook/2+rand.N(foreignLook))
			}
		case !queued && !fail.Moving, fail.Lasting, ctx.Err() != nil, a.s.ctx.Err() != nil:
			fail.Maybe = fail.Maybe || queued
			return nil, fail
		default:
			next, pause = pause/2+rand.N(pause/2), min(2*pause, maxPause)
			if silent = silence(w.subscription, fail, cmp.Or(silent, began)); silent != 0 {
				if d := driver.Now().Sub(silent); d >= a.req.TTL {
					return nil, &conn.Failure{Err: &driver.SilentError{For: d, Err: fail.Err}, Maybe: true}
				}
			}
		}
		if g, fail := a.sleep(ctx, w, next); g != nil || fail != nil {
			return g, fail
		}
	}
}

// look asks with a place in the queue. It waits no longer for the answer than a store
// may be silent.
func (a *attempt) look(ctx context.Context, queued bool, silent driver.Instant) (*grant, turn, *conn.Failure) {
	if queued {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, silent.Add(a.req.TTL).Sub(driver.Now()))
		defer cancel()
	}
	return a.ask(ctx, true)
}

// silence returns since when the store has been silent if a request that was sent at an
// instant had no answer: since that instant, or since the subscription has been closed.
// A refusal is an answer.
func silence(sub *conn.Subscription, fail *conn.Failure, sent driver.Instant) driver.Instant {
	if !fail.Silent {
		return 0
	}
	if closed, _ := sub.Closed(); closed != 0 {
		return min(closed, sent)
	}
	return sent
}

// sleep returns when it is time to look again, or with the grant that came meanwhile.
// It is time at the latest when nothing has been heard for a TTL.
func (a *attempt) sleep(ctx context.Context, w *waiter, d time.Duration) (*grant, *conn.Failure) {
	until := driver.Now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		granted, first, expires, wake := a.s.heardOf(w)
		if granted {
			return a.take(w), nil
		}
		now := driver.Now()
		if first {
			until = now.Add(turn{pttl: expires.Milliseconds()}.next())
		}
		at := until
		closed, news := w.subscription.Closed()
		if end := closed.Add(a.req.TTL); closed != 0 && end > now {
			at = min(at, end)
		}
		timer.Reset(at.Sub(now))
		select {
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, &conn.Failure{Err: ctx.Err(), Maybe: true}
		case <-a.s.ctx.Done():
			return nil, &conn.Failure{Err: conn.Unavailable(errClosed), Maybe: true, Lasting: true}
		case <-wake:
		case <-news:
		}
	}
}

// heardOf returns what messages have said to a waiter since the last call, and the
// channel that announces more.
func (s *store) heardOf(w *waiter) (granted, first bool, expires time.Duration, wake <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	granted, first = w.granted, w.first
	w.granted, w.first = false, false
	return granted, first, w.expires, w.wake
}

// next returns after which time to look again.
func (t turn) next() time.Duration {
	free := time.Duration(t.pttl) * time.Millisecond
	switch t.pttl {
	case -1: // another library's, without end
		free = lookEvery
	case noKey: // free
		free = 0
	}
	free = max(free, t.closed) + time.Millisecond
	if t.rank == 0 {
		return min(free, lookEvery)
	}
	behind := time.Duration(min(t.rank, maxStagger)) * stagger
	if free += behind; free < lookEvery {
		return free + rand.N(stagger)
	}
	return lookEvery - rand.N(lookEvery/4)
}

// awaitMessages waits until messages can be heard.
func (s *store) awaitMessages(ctx context.Context, sub *conn.Subscription, news <-chan struct{}) *conn.Failure {
	select {
	case <-news:
	case <-ctx.Done():
		return &conn.Failure{Err: ctx.Err()}
	case <-s.ctx.Done():
		return &conn.Failure{Err: conn.Unavailable(errClosed), Lasting: true}
	}
	if _, _, err := sub.State(); err != nil {
		return conn.NotBound(ctx, err)
	}
	return nil
}
