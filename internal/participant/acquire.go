// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Acquire waits until the lease is granted or ctx ends. It waits in the store's queue, or polls a store without one.
// It goes on while the store refuses requests. After a silence of one TTL it returns a *driver.SilentError. If the
// store has never answered and cannot be reached, it returns that error at once. The other errors are those of
// TryAcquire, except driver.ErrHeld. If ctx ends, the error is also a *driver.HeldError or a *driver.ClosedError, if
// the store says what the call waited for.
func (p *Participant) Acquire(ctx context.Context, req *driver.Request) (*Lease, error) {
	ctx, stop, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer p.done(stop)
	p.running.begin()
	defer p.running.end()
	var away outage // it may last for several attempts
	await := func(ctx context.Context, req *driver.Request) (*Lease, error) { return p.await(ctx, req, &away) }
	for lates, pause := 0, minPause; ; pause = min(2*pause, maxPause) {
		before := p.running.now().paused
		l, err := p.attemptOnce(ctx, req, await)
		switch {
		case err == nil:
			return l, nil
		case err == errAgain:
		case isLate(err) && p.running.now().paused > before:
		case isLate(err) && lates < maxLate:
			lates++
		default:
			return nil, err
		}
		if err := pauseFor(ctx, pause/2+p.spread(pause/2)); err != nil {
			return nil, err
		}
		req = renamed(req)
	}
}

// maxLate bounds how often Acquire asks again because a grant came too late to be used.
const maxLate = 3

// errAgain says that the lease was ended before it was granted: ask again, with another id.
var errAgain = errors.New("the lease was ended before it was granted")

// begin registers a call that may wait. It returns a copy of ctx that also ends with Stop, and the argument for done.
func (p *Participant) begin(ctx context.Context) (context.Context, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(ctx); err != nil {
		return nil, nil, err
	}
	p.calls.Add(1)
	switch {
	case ctx.Done() == nil:
		return Lent(ctx, p.ctx), nil, nil
	case !p.caps.CrossHost: // requests are short, and need not end with Stop
		return ctx, nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

func (p *Participant) done(stop func()) {
	if stop != nil {
		stop()
	}
	p.calls.Done()
}

// attemptOnce makes one attempt with ask. It undoes a grant that comes just when the caller gives up, or too late to be
// used.
func (p *Participant) attemptOnce(ctx context.Context, req *driver.Request, ask func(context.Context, *driver.Request) (*Lease, error)) (*Lease, error) {
	seen := p.tokens.seen(req.Name)
	l, err := ask(ctx, req)
	if err == nil && req.Renewed && l.late() {
		// A grant with little time left, and then a pause of the process. The next attempt has
		// an id of its own, because the release of this one may arrive late.
		_ = l.Release(ctx)
		whole := renamed(req)
		whole.Renewed = false
		l, err = ask(ctx, whole)
	}
	if err != nil {
		return nil, err
	}
	if err = p.usable(ctx); err == nil {
		err = checkToken(l.token, seen)
	}
	switch {
	case err != nil:
		l.Discard()
		return nil, err
	case l.late():
		return nil, l.tooLate(ctx)
	}
	p.tokens.saw(req.Name, l.token)
	return l, nil
}

// lateError is the error of a grant that came too late to be used: the process was stopped, or the store is slow.
type lateError struct{ error }

func (e *lateError) Unwrap() error { return e.error }

func isLate(err error) bool {
	var late *lateError
	return errors.As(err, &late)
}

// tooLate gives a lease back and returns the error of the attempt.
func (l *Lease) tooLate(ctx context.Context) error {
	outcome := driver.ErrUnavailable
	if err := l.Release(ctx); err != nil && !errors.Is(err, driver.ErrLost) {
		outcome = driver.ErrUncertain
	}
	return &lateError{fmt.Errorf("%w: the grant took longer than its TTL of %v: use a longer one", outcome, l.ttl)}
}

// attempt is a request on its way to a lease.
type attempt struct {
	*Lease
	req  driver.Request
	seen look   // the last answer that did not grant
	own  waiter // used by Acquire

	holders []driver.Held // in that answer, for the error of a caller that gives up
}

// look is an answer that did not grant.
type look struct {
	sent    driver.Instant // before the server's clock showed at
	at      time.Duration  // since 1970
	began   driver.Instant // before the request was sent
	took    time.Duration  // from then until the answer
	session any            // the connection over which events about the name arrive
}

// attempt begins an attempt. Events find its lease from then on: they may come before the answer.
func (p *Participant) attempt(req *driver.Request) *attempt {
	l := &Lease{p: p, ref: driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots}, ttl: req.TTL}
	if req.Keeps {
		l.wanted = new(wanted)
		_, l.wanted.stop = p.store.Hear(req.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if again := p.leases[req.Lease]; again != nil { // the caller repeats a call
		l.doubt, l.ref.Handle = again.doubt, again.ref.Handle
	}
	p.leases[req.Lease] = l
	return &attempt{Lease: l, req: *req}
}

// ask asks the store once and records a grant.
func (a *attempt) ask(ctx context.Context, queue bool) (driver.Answer, error) {
	a.p.mu.Lock()
	a.req.Queue, a.req.Handle, a.unconfirmed = queue, a.ref.Handle, false
	a.p.mu.Unlock()
	began := driver.Now()
	ans, err := a.p.store.Ask(ctx, &a.req)
	heard := driver.Now()
	if ans.Handle != nil {
		a.p.mu.Lock()
		a.ref.Handle = ans.Handle
		a.p.mu.Unlock()
	}
	if err != nil {
		f := driver.FailureOf(err)
		if !f.Silent && !f.Lasting && ctx.Err() == nil { // the store has answered, with a refusal
			a.p.answered.Store(true)
		}
		a.p.mu.Lock()
		a.doubt = a.doubt || f.Maybe
		f.Maybe = a.doubt // an earlier request may still reach the store
		a.p.mu.Unlock()
		f = worded(f)
		return ans, &f
	}
	a.p.answered.Store(true)
	a.p.saw(ans.Clock, heard)
	if !ans.Granted {
		a.seen = look{ans.Sent, ans.At, began, heard.Sub(began), ans.Session}
		return ans, nil
	}
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	if w := a.waiter; w != nil && w.lost || a.loss.why != nil { // the event may be newer than this answer
		return driver.Answer{}, errEnded
	}
	a.hold(&ans, term{sent: ans.Since, heard: heard, ttl: a.ttl}, ans.Since)
	if a.unconfirmed { // the event of its end may have been lost
		a.p.confirmSoon()
	}
	return ans, nil
}

// errEnded ends an attempt after an event said that its lease has ended. The store may still have the lease: the event
// may mean that the store is about to ask for it back.
var errEnded = &driver.Failure{
	Err:   fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain),
	Maybe: true, Lasting: true, Ended: true,
}

// giveUp ends an attempt that has failed, and returns its error. If the store may have recorded the lease, giveUp
// undoes that as Discard does.
func (a *attempt) giveUp(f driver.Failure) error {
	p := a.p
	p.mu.Lock()
	a.waiter = nil
	f.Maybe = f.Maybe || a.doubt
	if a.state = unsure; !f.Maybe {
		a.forget()
	}
	p.mu.Unlock()
	if f.Maybe {
		a.Discard()
	}
	return f.Err
}
