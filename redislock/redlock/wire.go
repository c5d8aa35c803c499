// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// wire is a Driver as a driver.Store. A Driver waits by itself: a wire keeps its calls, and its grants, until they
// end.
type wire struct {
	*Driver
	tell func(driver.Event)

	mu    sync.Mutex
	calls map[string]*call // by lease
}

// call is one attempt, and what has become of it when done is closed.
type call struct {
	cancel context.CancelFunc
	done   chan struct{}
	grant  *grant
	err    error
}

// Wire returns the store of a client on d, which its Close closes.
func (d *Driver) Wire() driver.Store {
	return &wire{Driver: d, tell: func(driver.Event) {}, calls: make(map[string]*call)}
}

// Caps implements driver.Store. A waiter hears all that there is to hear.
func (w *wire) Caps() driver.Caps {
	return driver.Caps{Guarantees: w.Guarantees(), Queue: true, Shows: true, LongerTTL: true}
}

// Listen implements driver.Store.
func (w *wire) Listen(f func(driver.Event)) {
	w.tell = f
	w.OnNews(func(n driver.News) { f(driver.Event{Kind: driver.Told, News: n}) })
}

var heard = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Hear implements driver.Store: each call listens by itself.
func (w *wire) Hear(string) (<-chan struct{}, func()) { return heard, func() {} }

// Ask implements driver.Store. An attempt that waits goes on until End.
func (w *wire) Ask(ctx context.Context, r *driver.Request) (driver.Answer, error) {
	req := *r
	w.mu.Lock()
	c := w.calls[r.Lease]
	begins := c == nil
	if begins {
		c = &call{done: make(chan struct{}), cancel: func() {}}
		w.calls[r.Lease] = c
		if r.Queue {
			var own context.Context
			own, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
			go w.wait(own, c, &req)
		}
	}
	w.mu.Unlock()
	if begins && !r.Queue {
		c.grant, c.err = w.TryAcquire(ctx, &req)
		w.ended(c, &req)
	}
	select { // also if this goroutine stands still until the timer has fired
	case <-c.done:
		return w.answer(c, r)
	default:
	}
	timer := time.NewTimer(w.patience())
	defer timer.Stop()
	select {
	case <-c.done:
		return w.answer(c, r)
	case <-timer.C:
		return driver.Answer{Free: -1, Rank: 1, Session: w}, nil // events alone tell when to look
	case <-ctx.Done():
		return driver.Answer{}, &driver.Failure{Err: ctx.Err(), Maybe: true}
	}
}

// wait waits for the name, and tells how that has ended.
func (w *wire) wait(ctx context.Context, c *call, req *driver.Request) {
	c.grant, c.err = w.Acquire(ctx, req)
	w.ended(c, req)
	e := driver.Event{Kind: driver.Look, Name: req.Name, Lease: req.Lease} // the next Ask has the error
	if g := c.grant; g != nil {
		e.Kind, e.Heard, e.Grant = driver.Granted, driver.Now(), w.granted(g)
	}
	w.tell(e)
}

func (w *wire) ended(c *call, req *driver.Request) {
	if g := c.grant; g != nil {
		g.OnLost(func(err error) {
			var lost *driver.LostError
			if !errors.As(err, &lost) {
				lost = &driver.LostError{Reason: driver.Gone}
			}
			w.tell(driver.Event{Kind: driver.Lost, Name: req.Name, Lease: req.Lease, Loss: lost})
		})
	}
	close(c.done)
}

func (w *wire) granted(g *grant) driver.Answer {
	return driver.Answer{Granted: true, Token: g.token, Waited: true, Since: g.since, Session: w}
}

var errEnded = fmt.Errorf("%w: the lease has ended before this client knew that it was granted", driver.ErrUncertain)

// answer returns what has become of a call.
func (w *wire) answer(c *call, r *driver.Request) (driver.Answer, error) {
	if c.grant != nil && c.grant.ended() == nil {
		return w.granted(c.grant), nil
	}
	if c.grant != nil { // broken before the waiter knew that it had the lease, for instance; End releases what is left
		return driver.Answer{}, &driver.Failure{Err: errEnded, Maybe: true, Lasting: true, Ended: true}
	}
	w.forget(r.Lease, c)
	var held *driver.HeldError
	var closed *driver.ClosedError
	switch {
	case errors.As(c.err, &held):
		ans := driver.Answer{Free: -1, Rank: 1}
		if held.Info != nil {
			ans.Holders = held.Info.Holders
		}
		return ans, nil
	case errors.As(c.err, &closed):
		return driver.Answer{Free: -1, Closed: closed.Left}, nil
	}
	// A Driver undoes what it has left, and a call that waits has borne what there is to bear.
	f := driver.FailureOf(c.err)
	f.Maybe, f.Lasting, f.Silent = false, f.Lasting || r.Queue, errors.Is(c.err, driver.ErrSilent)
	return driver.Answer{}, &f
}

func (w *wire) forget(lease string, c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[lease] == c {
		delete(w.calls, lease)
	}
	c.cancel()
}

func (w *wire) call(l driver.Ref) *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[l.Lease]
}

// Renew implements driver.Store.
func (w *wire) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	c := w.call(l)
	if c == nil {
		return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
	}
	select {
	case <-c.done:
	default:
		return driver.Renewal{}, &driver.LostError{Reason: driver.Gone} // it waits
	}
	g := c.grant
	if g == nil {
		return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
	}
	left, kept := g.left(), false
	if left > ttl {
		ttl, kept = left, true
	}
	since, err := g.Renew(ctx, ttl)
	return driver.Renewal{Since: since, Kept: kept}, err
}

// End implements driver.Store. A call that waits leaves the queues before.
func (w *wire) End(ctx context.Context, l driver.Ref, _ driver.End) (found bool, err error) {
	c := w.call(l)
	if c == nil {
		return false, nil
	}
	select {
	case <-c.done:
	default:
		found = true // it waits
	}
	c.cancel()
	select {
	case <-c.done:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if c.grant != nil {
		found = !errors.Is(c.grant.ended(), driver.ErrLost)
		err = c.grant.Release(ctx)
	}
	if err == nil || errors.Is(err, driver.ErrLost) {
		w.forget(l.Lease, c)
	}
	return found && err == nil, err
}

// Close implements driver.Store.
func (w *wire) Close() error {
	w.mu.Lock()
	for _, c := range w.calls {
		c.cancel()
	}
	w.mu.Unlock()
	return w.Driver.Close()
}
