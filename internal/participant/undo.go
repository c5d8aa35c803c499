// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// RequestTimeout bounds a request that has no context of its own.
	RequestTimeout = 5 * time.Second

	// closeTimeout bounds the requests that are left after Stop, all together: what the store has not answered
	// by then ends with its TTL. With what the store's Close takes that is some five seconds.
	closeTimeout = 4 * time.Second
)

// Release gives the lease back. It uses the values of ctx only, and takes RequestTimeout at most. It returns
// driver.ErrLost if the store had ended the lease. If the store does not answer, it returns that error, and the
// participant repeats the request in the background.
func (l *Lease) Release(ctx context.Context) error {
	err := l.end(l.p.Bounded(ctx))
	if err != nil && !errors.Is(err, driver.ErrLost) {
		l.p.calls.Go(l.repeatEnd)
	}
	return err
}

// Discard gives the lease back in the background, or at once where a request costs nothing.
func (l *Lease) Discard() {
	if l.p.caps.CrossHost {
		l.p.calls.Go(l.repeatEnd)
	} else {
		_ = l.Release(context.Background())
	}
}

// repeatEnd ends a lease until the store has answered, for as long as the store may have something of it: two
// TTLs, or for ever where leases do not expire. After Stop it makes one last attempt.
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

// Bounded returns a context with the values of ctx for a request that a caller waits for, whatever becomes of
// ctx. It ends after RequestTimeout, or with what is left of closeTimeout. A store on this machine answers at
// once, and needs no end.
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

// Lent returns a context with the values of one context and the end of another, whose
// own values do not matter.
func Lent(values, ends context.Context) context.Context {
	if values == context.Background() {
		return ends
	}
	return lentContext{ends, values}
}

// Value asks the context that ends first. Package context looks for a private value of
// its own there; if it finds that, it makes children without a goroutine.
func (c lentContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// timeouts makes the contexts of requests whose callers set no end. A context for each
// request would cost more than everything else in a release.
type timeouts struct {
	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	cancel context.CancelFunc
	until  driver.Instant // when the next one is due
	closed bool           // it is the last one
}

// next returns a context that ends RequestTimeout from now, or up to a tenth of it earlier:
// for so long requests get the same one.
func (t *timeouts) next() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := driver.Now(); !t.closed && now >= t.until {
		// The context before ends by itself: requests may still use it.
		t.ctx, t.cancel = context.WithTimeout(context.Background(), RequestTimeout)
		t.until = now.Add(RequestTimeout / 10)
	}
	return t.ctx
}

// close begins the last one, which ends closeTimeout from now.
func (t *timeouts) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.cancel = context.WithTimeout(context.Background(), closeTimeout)
	t.closed = true
}

// stop frees the timer when no request is under way any more.
func (t *timeouts) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel()
}
