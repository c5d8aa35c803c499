// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// waiter is a call of Acquire that waits. Participant.mu guards it.
type waiter struct {
	number  uint64        // in the order in which they came
	wake    chan struct{} // has room for one: something below has changed, or the lease is held; nil before it sleeps
	now     bool          // look at once
	free    time.Duration // look after this, if soon is set
	soon    bool
	lost    bool          // an event said that its grant was ended
	granted *driver.Event // what hands the name over, until the waiter has decided
}

func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// await waits until the name is granted.
func (p *Participant) await(ctx context.Context, req *driver.Request, away *outage) (*Lease, error) {
	a := p.attempt(req)
	ready, stop := p.store.Hear(req.Name)
	defer stop()
	p.mu.Lock()
	p.waiters++
	a.own.number, a.waiter = p.waiters, &a.own
	p.mu.Unlock()
	l := looks{attempt: a, pause: minPause, idle: minIdle, outage: away}
	f := l.enter(ctx, ready)
	if f == nil {
		f = l.wait(ctx)
	}
	if f == nil {
		*away = outage{}
		return a.Lease, nil
	}
	if f.Ended { // the caller asks again, with another id
		f = &driver.Failure{Err: errAgain, Maybe: f.Maybe}
	}
	if ctx.Err() != nil && errors.Is(f.Err, context.Canceled) {
		f.Err = ctx.Err() // not the error of the wait's context
	}
	err := a.giveUp(*f)
	if ctx.Err() != nil && err != errAgain {
		err = l.gaveUp(err)
	}
	return nil, err
}

// firstSilence tells a first request without an answer, which takes longer, from a refused connection.
const firstSilence = time.Second

// readyTimeout is how long a caller waits until it can hear events. Then it polls.
const readyTimeout = time.Second

// enter asks once, if events cannot be heard yet: a caller that need not wait needs none. Then it waits
// until they can.
func (l *looks) enter(ctx context.Context, ready <-chan struct{}) *driver.Failure {
	select {
	case <-ready:
		return nil
	default:
	}
	began := l.p.running.now()
	if ans, err := l.ask(ctx, false); err != nil {
		_, f := l.failed(ctx, began, driver.FailureOf(err))
		return f
	} else if ans.Granted {
		return nil
	}
	*l.outage = outage{}
	timer := time.NewTimer(readyTimeout)
	defer timer.Stop()
	select {
	case <-ready:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
	case <-l.p.ctx.Done():
	}
	return &driver.Failure{Err: l.p.usable(ctx)}
}

// wait looks until the name is granted. It goes on through every failure that may pass, until the store has
// been silent for a whole TTL. Of a store that has never answered it returns the first failure, unless the
// request may have been carried out: a repetition finds that out.
func (l *looks) wait(ctx context.Context) *driver.Failure {
	for !l.isHeld() {
		began := l.p.running.now()
		ans, err := l.look(ctx, l.queued)
		var next time.Duration
		switch {
		case err != nil:
			var f *driver.Failure
			if next, f = l.failed(ctx, l.p.running.sent(ans.Sent, began), driver.FailureOf(err)); f != nil {
				return f
			}
		case ans.Granted:
			return nil
		default:
			next = l.refused(ans)
		}
		if l.patience == nil {
			l.patience = l.patient(ctx)
			defer l.patience.stop()
			ctx = l.patience
		}
		if f := l.sleep(ctx, next); f != nil {
			return f
		}
	}
	return nil
}

// looks are what a waiter has learnt from its looks.
type looks struct {
	*attempt
	patience    *patience // from the first answer that did not grant on
	queued      bool
	pause, idle time.Duration // the next ones, after a failure and at a name that is free and is not granted
	outage      *outage
	refusal     refusal
}

// refused returns after which time to look again, after an answer that did not grant.
func (l *looks) refused(ans driver.Answer) time.Duration {
	l.queued, l.pause, l.holders = l.p.caps.Queue, minPause, ans.Holders
	l.refusal = refusal{}
	*l.outage = outage{}
	next := l.p.next(ans)
	if next > minIdle {
		l.idle = minIdle
	} else { // the name is free, and is not granted
		next, l.idle = l.idle, min(2*l.idle, pollFirst)
	}
	return next
}

// failed is refused for a request that was sent at a moment and has failed. It returns a failure that ends the
// waiting.
func (l *looks) failed(ctx context.Context, sent moment, f driver.Failure) (time.Duration, *driver.Failure) {
	now := l.p.running.now()
	f.Passing = f.Passing || now.paused > sent.paused // the time of the request may have passed in the pause
	answered := !f.Silent && l.p.answered.Load()
	if answered {
		*l.outage = outage{}
	}
	if end := l.ends(ctx, now.sub(sent), f); end != nil {
		return 0, end
	}
	bears := l.ttl
	if !l.p.answered.Load() {
		bears = min(bears, RequestTimeout)
	}
	if answered {
		if l.refusal.again(sent, f); l.refusal.err != nil && now.sub(l.refusal.began) >= firstSilence {
			l.p.tellRefusal(l.refusal.err)
		}
	} else if err := l.outage.failed(sent, now, bears, f.Err); err != nil {
		return 0, &driver.Failure{Err: err, Maybe: f.Maybe || l.queued}
	} else {
		l.refusal = refusal{} // it may be over
	}
	next := l.pause/2 + l.p.spread(l.pause/2)
	l.pause = min(2*l.pause, maxPause)
	return next, nil
}

// ends returns why the waiting ends after a request that has failed and took a while, or nil.
func (l *looks) ends(ctx context.Context, took time.Duration, f driver.Failure) *driver.Failure {
	if f.Ended {
		return &f
	}
	over := l.p.usable(ctx)
	f.Maybe = f.Maybe || l.queued
	switch {
	case f.Lasting:
		return &f
	case over != nil:
		return &driver.Failure{Err: over, Maybe: f.Maybe}
	case l.p.answered.Load(), f.Passing:
		return nil
	}
	if f.Maybe { // a repetition finds out
		return nil
	}
	if f.Silent && took >= firstSilence { // else it was refused
		f.Err = &driver.SilentError{For: took, Err: f.Err}
	}
	return &f
}

func (a *attempt) isHeld() bool {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return a.state == held
}

// look asks. It waits for the answer for no longer than the store may be silent. The first time it leaves that to a store
// that sees to it, as a context costs more than the rest. It always does so if requests wait in the client: they would lose
// their places there.
func (a *attempt) look(ctx context.Context, again bool) (driver.Answer, error) {
	if !a.p.answered.Load() || !a.p.caps.CrossHost || a.p.caps.Paces || !again && a.p.caps.Bounded {
		return a.ask(ctx, a.p.caps.Queue)
	}
	lctx, cancel := context.WithTimeout(ctx, a.ttl)
	defer cancel()
	ans, err := a.ask(lctx, a.p.caps.Queue)
	if err != nil && ctx.Err() == nil && lctx.Err() != nil {
		f := driver.FailureOf(err)
		f.Silent = true
		return ans, &f
	}
	return ans, err
}
