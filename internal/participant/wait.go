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
	wake    chan struct{} // with room for one: a field below has changed, or the lease is held; nil before the first sleep
	now     bool          // look at once
	free    time.Duration // look after this, if soon is set
	soon    bool
	lost    bool          // an event said that its lease has ended
	granted *driver.Event // hands the name over; nil once the waiter has decided what it is worth
}

func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been woken already
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
	l := wait{attempt: a, pause: minPause, idle: minIdle, outage: away}
	f := l.enter(ctx, ready)
	if f == nil {
		f = l.untilHeld(ctx)
	}
	if f == nil {
		*away = outage{}
		return a.Lease, nil
	}
	if f.Ended { // the caller asks again, with another id
		f = &driver.Failure{Err: errAgain, Maybe: f.Maybe}
	}
	if ctx.Err() != nil && errors.Is(f.Err, context.Canceled) {
		f.Err = ctx.Err() // it may be DeadlineExceeded, where the context of the wait says Canceled
	}
	err := a.giveUp(*f)
	if ctx.Err() != nil && err != errAgain {
		err = l.gaveUp(err)
	}
	return nil, err
}

// firstSilence tells a refused connection, which fails sooner, from a request without an answer.
const firstSilence = time.Second

// readyTimeout is how long a waiter waits for its subscription to events. After that it polls.
const readyTimeout = time.Second

// enter waits until events can be heard. Before that it asks once: a caller that is granted the name at once
// needs no events.
func (l *wait) enter(ctx context.Context, ready <-chan struct{}) *driver.Failure {
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
	select {
	case <-ready:
		return nil
	case <-time.After(readyTimeout):
		return nil
	case <-ctx.Done():
	case <-l.p.ctx.Done():
	}
	return &driver.Failure{Err: l.p.usable(ctx)}
}

// untilHeld looks until the name is granted. It goes on after every failure that may pass, until the store has been
// silent for a whole TTL. If the store has never answered, untilHeld returns the first failure, unless the request
// may have been carried out: then it repeats the request to find out.
func (l *wait) untilHeld(ctx context.Context) *driver.Failure {
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

// wait is the state of a wait between its looks.
type wait struct {
	*attempt
	patience    *patience // nil before the first answer that did not grant
	queued      bool
	pause, idle time.Duration // the next waits: after a failure, and at a name that is free but not granted
	outage      *outage
	refusal     refusal
}

// refused returns how long to wait before the next look, after an answer that did not grant.
func (l *wait) refused(ans driver.Answer) time.Duration {
	l.queued, l.pause, l.holders = l.p.caps.Queue, minPause, ans.Holders
	l.refusal = refusal{}
	*l.outage = outage{}
	next := l.p.next(ans)
	if next > minIdle {
		l.idle = minIdle
	} else { // the name is free but not granted
		next, l.idle = l.idle, min(2*l.idle, pollFirst)
	}
	return next
}

// failed returns how long to wait before the next look, after a request that was sent at sent and has failed. If the
// failure ends the wait, failed returns it.
func (l *wait) failed(ctx context.Context, sent moment, f driver.Failure) (time.Duration, *driver.Failure) {
	now := l.p.running.now()
	f.Passing = f.Passing || now.paused > sent.paused // a pause of this process may have used up the time of the request
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
		l.refusal = refusal{} // the refusals may be over
	}
	next := l.pause/2 + l.p.spread(l.pause/2)
	l.pause = min(2*l.pause, maxPause)
	return next, nil
}

// ends returns the failure that ends the wait, after a request that failed with f and took so long, or nil.
func (l *wait) ends(ctx context.Context, took time.Duration, f driver.Failure) *driver.Failure {
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
	if f.Maybe { // a repetition will show what has become of it
		return nil
	}
	if f.Silent && took >= firstSilence { // otherwise the connection was refused
		f.Err = &driver.SilentError{For: took, Err: f.Err}
	}
	return &f
}

func (a *attempt) isHeld() bool {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return a.state == held
}

// look asks the store, and waits for one TTL at most, because the store may be silent for no longer. There is no limit if
//   - the store has never answered,
//   - the store is on this machine,
//   - the store Paces its requests: a request that is given up loses its place in the client, or
//   - this is the first request and the store's requests are Bounded: a context costs more than the rest.
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
