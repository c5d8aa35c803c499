// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Acquire asks until the lease is granted or ctx ends. It waits in the store's queue, or asks again and again if the
// store has none. It goes on while the store refuses requests, and through a silence of one TTL; then it returns a
// *driver.SilentError. If a store that has never answered cannot be reached, it returns that error at once. The
// other errors are as for TryAcquire, but for driver.ErrHeld. If ctx ends, its error comes with a
// *driver.HeldError or a *driver.ClosedError, if the store says what the call has waited for.
func (p *Participant) Acquire(ctx context.Context, req *driver.Request) (*Lease, error) {
	ctx, stop, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer p.done(stop)
	p.running.begin()
	defer p.running.end()
	away := new(outage) // one attempt may end in it, and another begin
	for lates, pause := 0, minPause; ; pause = min(2*pause, maxPause) {
		before := p.running.now().paused
		l, err := p.attemptOnce(ctx, req, attemptKind{waits: away})
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

// maxLate bounds how often Acquire asks again for a grant that came too late to be of use.
const maxLate = 3

// errAgain says that somebody has ended the lease before it was granted.
var errAgain = errors.New("the lease was ended before it was granted")

// begin lets a call in that may wait. It returns a copy of ctx that also ends with Stop, and what done has to be
// called with.
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
	case !p.caps.CrossHost: // a request does not take long
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

// attemptKind is how an attempt is made. The zero value asks once.
type attemptKind struct {
	waits   *outage // for how long the store has not answered
	instead *Lease  // downgrade this one
}

func (k attemptKind) make(ctx context.Context, p *Participant, req *driver.Request) (*Lease, error) {
	switch {
	case k.instead != nil:
		return k.instead.lower(ctx, req)
	case k.waits != nil:
		return p.await(ctx, req, k.waits)
	}
	return p.try(ctx, req)
}

// attemptOnce makes one attempt. A grant that came in the instant in which the caller gave up, or too late to be of
// use, is undone.
func (p *Participant) attemptOnce(ctx context.Context, req *driver.Request, kind attemptKind) (*Lease, error) {
	seen := p.tokens.seen(req.Name)
	l, err := kind.make(ctx, p, req)
	if err == nil && req.Renewed && l.late() {
		// The grant had little time left, and the process was stopped. Another attempt has
		// an id of its own: what still ends this one may come late.
		_ = l.Release(ctx)
		whole := renamed(req)
		whole.Renewed = false
		l, err = kind.make(ctx, p, whole)
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

// lateError is the error of a grant that came too late to be of use, as the process was stopped or the store is
// slow.
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
	own  waiter // of Acquire

	holders []driver.Held // of that answer, for a caller that gives up
}

// look is an answer that did not grant, and over what events about the name arrived when the request
// was sent.
type look struct {
	sent    driver.Instant // before the server's clock showed at
	at      time.Duration  // since 1970
	began   driver.Instant // before the request was sent
	took    time.Duration  // until the answer came
	session any
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
	if again := p.leases[req.Lease]; again != nil { // the call is repeated
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
		if !f.Silent && !f.Lasting && ctx.Err() == nil { // a refusal is an answer, if it comes from the store
			a.p.answered.Store(true)
		}
		a.p.mu.Lock()
		a.doubt = a.doubt || f.Maybe
		f.Maybe = a.doubt // the store may receive an earlier request yet
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
	if w := a.waiter; w != nil && w.lost || a.loss.why != nil { // perhaps after this answer
		return driver.Answer{}, errEnded
	}
	a.hold(&ans, term{sent: ans.Since, heard: heard, ttl: a.ttl}, ans.Since)
	if a.unconfirmed { // somebody may have ended it after this answer
		a.p.confirmSoon()
	}
	return ans, nil
}

// errEnded is why an attempt ends of whose lease an event said that it was ended. The store may have it still, as it may be
// about to ask for it back.
var errEnded = &driver.Failure{
	Err:   fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain),
	Maybe: true, Lasting: true, Ended: true,
}

// giveUp ends an attempt that has failed, and returns its error. What the store may have recorded, it undoes in the
// background, or at once where a request costs nothing.
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
