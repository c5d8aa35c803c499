// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// RequestTimeout bounds a request that has no context of its own.
	RequestTimeout = 5 * time.Second

	// closeTimeout bounds all requests after Stop together. Leases whose release has no answer by then end with
	// their TTL. Together with the store's Close that makes about five seconds.
	closeTimeout = 4 * time.Second
)

// Release gives the lease back. It uses only the values of ctx, and takes RequestTimeout at most. It returns
// driver.ErrLost if the store had ended the lease. If the request fails, Release returns the error, and the
// participant repeats the request in the background.
func (l *Lease) Release(ctx context.Context) error {
	err := l.end(l.p.Bounded(ctx))
	if err != nil && !errors.Is(err, driver.ErrLost) {
		l.p.calls.Go(l.repeatEnd)
	}
	return err
}

// Discard gives the lease back, in the background unless the store is on this machine, where a request is short.
func (l *Lease) Discard() {
	if l.p.caps.CrossHost {
		l.p.calls.Go(l.repeatEnd)
	} else {
		_ = l.Release(context.Background())
	}
}

// repeatEnd ends a lease. It repeats the request until the store answers, or until the store can have nothing left of
// the lease: for two TTLs and at least a minute, or for ever if leases do not expire. After Stop it tries once more.
func (l *Lease) repeatEnd() {
	p, began := l.p, driver.Now()
	for pause := minPause; ; pause = min(pause*2, maxPause) {
		stopped := p.ctx.Err() != nil
		err := l.endAgain()
		if err == nil || errors.Is(err, driver.ErrLost) {
			return
		}
		expired := p.caps.Expiry && driver.Now().Sub(began) > max(2*l.ttl, time.Minute)
		if stopped || expired {
			if p.opts.NotEnded != nil {
				p.opts.NotEnded(err)
			}
			return
		}
		_ = pauseFor(p.ctx, pause)
	}
}

func (l *Lease) endAgain() error {
	p := l.p
	if p.ctx.Err() != nil {
		return l.end(p.timeouts.next())
	}
	ctx, cancel := context.WithTimeout(context.Background(), RequestTimeout)
	defer cancel()
	stop := context.AfterFunc(p.ctx, func() { context.AfterFunc(p.timeouts.next(), cancel) })
	defer stop()
	return l.end(ctx)
}

// Bounded returns a context with the values of ctx, for a request that goes on when ctx ends. It ends after
// RequestTimeout, or after what is left of closeTimeout; for a store on this machine, which answers at once, it does
// not end.
func (p *Participant) Bounded(ctx context.Context) context.Context {
	switch {
	case p.caps.CrossHost:
		return Lent(ctx, p.timeouts.next())
	case ctx.Done() != nil:
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// lentContext has the values of one context and the end of another.
type lentContext struct {
	context.Context // which ends
	values          context.Context
}

// Lent returns a context with the values of one context and the end of another.
func Lent(values, ends context.Context) context.Context {
	if values == context.Background() {
		return ends
	}
	return lentContext{ends, values}
}

// Until returns a copy of ctx that also ends when end does.
func Until(ctx, end context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return Lent(ctx, end), func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(end, cancel)
	return ctx, func() { stop(); cancel() }
}

// Value asks the context that ends first: package context finds a private value of its own there,
// and then makes children without a goroutine.
func (c lentContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// timeouts makes the contexts of requests whose callers set no end. Requests share them: a context
// for each would cost more than everything else in a release.
type timeouts struct {
	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	cancel context.CancelFunc
	until  driver.Instant // requests share ctx until then
	closed bool           // ctx is the last one
}

// next returns a context that ends RequestTimeout from now, or up to a tenth of that earlier.
func (t *timeouts) next() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := driver.Now(); !t.closed && now >= t.until {
		// Requests may still use the last context. It ends by itself.
		t.ctx, t.cancel = context.WithTimeout(context.Background(), RequestTimeout)
		t.until = now.Add(RequestTimeout / 10)
	}
	return t.ctx
}

// close makes the last context, which ends closeTimeout from now.
func (t *timeouts) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.cancel = context.WithTimeout(context.Background(), closeTimeout)
	t.closed = true
}

// stop frees the timer. No request is under way.
func (t *timeouts) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel()
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
