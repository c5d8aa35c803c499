// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// maxRepeats bounds how often a request is repeated at once.
	maxRepeats = 5
	// maxLate bounds how often Acquire asks again for a grant that came too late to be of use.
	maxLate = 3
	// recallWithin is how long TryAcquire asks for a lease that may be kept, besides the time of four requests,
	// but a second at most, before it takes it for held. If nobody uses it, its client gives it back in the time
	// of two.
	recallWithin = 100 * time.Millisecond
)

// TryAcquire asks for a lease once and waits for nobody. It does not overtake waiters. The error is
//
//   - a *driver.HeldError if the name is held, or a *driver.SlotsError if with another number of slots;
//   - a *driver.ClosedError if the store grants nothing at present;
//   - driver.ErrUnavailable if the store has certainly recorded nothing;
//   - driver.ErrUncertain if the store may have recorded the lease, which the participant undoes;
//   - the error of ctx, under the same rule.
func (p *Participant) TryAcquire(ctx context.Context, req *driver.Request) (*Lease, error) {
	ctx, stop, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer p.done(stop)
	began := driver.Now()
	l, err := p.attemptOnce(ctx, req, attemptKind{})
	if !mayBeKept(err) {
		return l, err
	}
	asked := driver.Now()
	within := recallWithin + min(4*asked.Sub(began), time.Second)
	for pause := recallWithin / 400; mayBeKept(err) && driver.Now().Sub(asked) < within; pause = min(2*pause, recallWithin/8) {
		if err := pauseFor(ctx, pause); err != nil {
			return nil, err
		}
		l, err = p.attemptOnce(ctx, renamed(req), attemptKind{})
	}
	return l, err
}

// mayBeKept reports whether a lease is in the way that its client may only keep.
func mayBeKept(err error) bool {
	if err == nil {
		return false
	}
	var held *driver.HeldError
	return errors.As(err, &held) && held.Info != nil && len(held.Info.Holders) == 1 && held.Info.Holders[0].Keeps
}

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
	for lates, pause := 0, minPause; ; pause = min(2*pause, maxPause) {
		before := p.running.now().paused
		l, err := p.attemptOnce(ctx, req, attemptKind{waits: true})
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
	waits   bool
	instead *Lease // downgrade this one
}

func (k attemptKind) make(ctx context.Context, p *Participant, req *driver.Request) (*Lease, error) {
	switch {
	case k.instead != nil:
		return k.instead.lower(ctx, req)
	case k.waits:
		return p.await(ctx, req)
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

// try asks, and asks again at once if what was in the way has gone.
func (p *Participant) try(ctx context.Context, req *driver.Request) (*Lease, error) {
	a := p.attempt(req)
	ans, err := a.ask(ctx, false)
	for range maxRepeats {
		if err != nil || ans.Granted || ans.Rank > 0 || len(ans.Holders) > 0 || ans.Closed > 0 {
			break
		}
		ans, err = a.ask(ctx, false) // waiters that had gone were in the way
	}
	switch {
	case err != nil:
		return nil, a.giveUp(driver.FailureOf(err))
	case ans.Granted:
		return a.Lease, nil
	}
	p.mu.Lock()
	a.forget()
	p.mu.Unlock()
	if ans.Closed > 0 && len(ans.Holders) == 0 {
		return nil, p.closedFor(ctx, ans)
	}
	return nil, &driver.HeldError{Info: infoOf(req.Name, ans.Holders)}
}

// closedFor returns the error of a store that grants nothing at present.
func (p *Participant) closedFor(ctx context.Context, ans driver.Answer) error {
	err := &driver.ClosedError{Left: ans.Closed}
	if info, no := p.store.Describe(ctx); no == nil {
		err.MaxTTL, err.SetBy, err.Do = info.MaxTTL, info.SetBy, info.Do
	}
	return err
}

func infoOf(name string, holders []driver.Held) *driver.Info {
	info := &driver.Info{Name: name, Holders: holders}
	for _, h := range holders {
		info.Token = max(info.Token, h.Token)
	}
	return info
}

// renamed returns a copy of req for another attempt, with a new id. The attempt before
// may be about to be undone; that must not undo the new one.
func renamed(req *driver.Request) *driver.Request {
	again := *req
	again.Lease = NewID()
	return &again
}

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns an id for a lease: 20 random bytes, as Redis's page on distributed locks advises,
// in letters and digits.
func NewID() string {
	var b [20]byte
	rand.Read(b[:])
	return idEncoding.EncodeToString(b[:])
}

// pauseFor waits for d, or until ctx ends, whose error it returns.
func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
