// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// requestTimeout bounds a request that has no context of its own.
	requestTimeout = 5 * time.Second

	// closeTimeout bounds the requests that are left when the client is closed, all
	// together: what the store has not answered by then ends with its TTL. With what the
	// driver's Close takes that is some five seconds.
	closeTimeout = 4 * time.Second

	// maxLate bounds how often Acquire asks again for a grant that came too late to be of use.
	maxLate = 3

	// Bounds of the pause between two looks at a store that has no queue.
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// attempt makes one request. It undoes whatever the attempt leaves in the store without
// a lease: a grant that the driver returns with an error, and one that came in the
// instant in which the caller gave up, or too late to be of use. It also returns the
// request that was granted, as ask does.
func (c *Client) attempt(ctx context.Context, req *driver.Request,
	acquire func(context.Context, *driver.Request) (driver.Grant, error)) (driver.Grant, *driver.Request, error) {
	seen := c.tokens.seen(req.Name)
	grant, err := acquire(ctx, req)
	if err == nil && req.Renewed && c.late(grant, req) {
		// The grant had little time left, and the process was stopped. Another attempt has
		// an id of its own: what still ends this one may come late.
		_ = c.giveBack(ctx, grant)
		req = renamed(req)
		whole := *req
		whole.Renewed = false
		grant, err = acquire(ctx, &whole)
	}
	if err == nil {
		err = c.over(ctx)
	}
	if err == nil {
		err = checkToken(grant, seen)
	}
	if err == nil && c.late(grant, req) {
		return nil, req, c.tooLate(ctx, grant, req.TTL)
	}
	if err != nil {
		if grant != nil {
			c.undo(grant)
		}
		return nil, req, err
	}
	return grant, req, nil
}

// lateError is the error of a grant that came too late to be of use, as the process was stopped or the store is
// slow.
type lateError struct{ error }

func (e *lateError) Unwrap() error { return e.error }

// tooLate gives a grant back and returns the error of the attempt.
func (c *Client) tooLate(ctx context.Context, grant driver.Grant, ttl time.Duration) error {
	outcome := ErrUnavailable
	if err := c.giveBack(ctx, grant); err != nil && !errors.Is(err, ErrLost) {
		outcome = ErrUncertain
	}
	return &lateError{fmt.Errorf("%w: the grant took longer than its TTL of %v: use a longer one", outcome, ttl)}
}

// late reports whether nothing is left of the TTL of a grant.
func (c *Client) late(grant driver.Grant, req *driver.Request) bool {
	return c.guarantees.Expiry && driver.Now() >= grant.Since().Add(req.TTL-driver.Drift(req.TTL))
}

// ask asks the store until it grants: in the store's own queue, or again and again
// where it has none. It also returns the request that was granted: the store knows the
// lease by the id of that one.
func (c *Client) ask(ctx context.Context, req *driver.Request) (driver.Grant, *driver.Request, error) {
	q, ok := c.driver.(driver.Queuer)
	if ok && !c.guarantees.CrossHost {
		// Asking first costs no round trip here, and saves the context below.
		grant, asked, err := c.attempt(ctx, req, c.driver.TryAcquire)
		req = asked
		if errors.Is(err, ErrUncertain) {
			req = renamed(req)
		} else if !errors.Is(err, ErrHeld) {
			return grant, req, err
		}
	}
	acquire := c.driver.TryAcquire
	if ok {
		acquire = q.Acquire
	}
	p := c.patience(ctx, req)
	defer p.stop()
	grant, req, err := c.repeat(p, req, acquire)
	if ctx.Err() == nil || err != nil && !errors.Is(err, context.Canceled) {
		return grant, req, err
	}
	if grant != nil { // in the instant in which the caller gave up
		c.undo(grant)
	}
	return nil, nil, p.gaveUp(ctx)
}

// untilClose returns a copy of ctx that ends when the client is closed.
func (c *Client) untilClose(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return lent(ctx, c.ctx), func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// repeat asks until the store grants. It goes on through an outage until one TTL after
// the first attempt that failed because of it; the time for which that attempt had
// waited in the store's queue does not count. If the very first attempt cannot reach
// the store, or the store will always refuse, it returns that error at once.
func (c *Client) repeat(ctx *patience, req *driver.Request,
	acquire func(context.Context, *driver.Request) (driver.Grant, error)) (driver.Grant, *driver.Request, error) {
	pause, contact, away := minPause, false, false
	var since driver.Instant // of the outage, if away
	var silent *driver.SilentError
	var late *lateError
	for lates := 0; ; {
		grant, asked, err := c.attempt(ctx, req, acquire)
		req = asked
		switch {
		case errors.As(err, &silent): // the outage has lasted for so long
			return nil, nil, err
		case err == nil:
			return grant, req, nil
		case errors.Is(err, ErrHeld):
			contact, away = true, false
			ctx.saw(err)
		case errors.As(err, &late):
			if lates++; lates > maxLate {
				return nil, nil, err
			}
			contact, away = true, false
		case errors.Is(err, driver.ErrDenied), errors.Is(err, fs.ErrInvalid):
			return nil, nil, err
		case errors.Is(err, ErrUncertain) && (contact || !errors.Is(err, driver.ErrSilent)), errors.Is(err, ErrUnavailable) && contact:
			contact = true
			if !away {
				away, since = true, driver.Now()
			}
			if d := driver.Now().Sub(since); d > req.TTL {
				return nil, nil, &SilentError{For: d, Err: err}
			}
		default:
			return nil, nil, err
		}
		select {
		case <-time.After(pause/2 + c.random.spread(pause/2)):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		pause = min(pause*2, maxPause)
		req = renamed(req)
	}
}

// renamed returns a copy of req for another attempt, with a new id. The attempt before
// may be about to be undone; that must not undo the new one.
func renamed(req *driver.Request) *driver.Request {
	again := *req
	again.Lease = newID()
	return &again
}

// undo gives a grant back in the background.
func (c *Client) undo(grant driver.Grant) {
	c.background.Go(func() { c.repeatRelease(grant) })
}

// giveBack releases a grant. If the store does not answer, it returns that error, and
// the client repeats the request in the background.
func (c *Client) giveBack(ctx context.Context, grant driver.Grant) error {
	err := release(ctx, grant)
	if err != nil && !errors.Is(err, ErrLost) {
		c.undo(grant)
	}
	return err
}

// release releases a grant, unless Close has no time left: a driver might send the request all
// the same.
func release(ctx context.Context, grant driver.Grant) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return grant.Release(ctx)
}

// repeatRelease releases a grant until the store has answered, for as long as the store
// may have something to release: two TTLs, or for ever where leases do not expire.
// Close ends it after one last attempt, and has closeTimeout for all.
func (c *Client) repeatRelease(grant driver.Grant) {
	began, pause := driver.Now(), minPause
	for {
		closing := c.ctx.Err() != nil
		ctx, cancel := c.another()
		err := release(ctx, grant)
		cancel()
		if err == nil || errors.Is(err, ErrLost) {
			return
		}
		expired := c.guarantees.Expiry && driver.Now().Sub(began) > max(2*c.ttl, time.Minute)
		if closing || expired {
			c.observer.notGivenBack(err)
			return
		}
		select {
		case <-time.After(pause/2 + c.random.spread(pause/2)):
		case <-c.ctx.Done():
		}
		pause = min(pause*2, maxPause)
	}
}

// another returns the context of one more attempt to release.
func (c *Client) another() (context.Context, context.CancelFunc) {
	if c.ctx.Err() != nil {
		return c.timeouts.next(), func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	stop := context.AfterFunc(c.ctx, func() { context.AfterFunc(c.timeouts.next(), cancel) })
	return ctx, func() { stop(); cancel() }
}
