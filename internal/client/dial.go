// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// link connects a client to its store when the client is first used.
type link struct {
	open func(context.Context) (driver.Store, error) // nil if the store was given to New
	mu   sync.Mutex                                  // taken before the locks of the client
	dial *dial                                       // the attempt under way, or nil

	// Only the attempt under way uses these.
	again    driver.Instant // the next attempt begins then or later
	refusals refusals
}

// Open makes the client call open when it is first used.
func (c *Client) Open(open func(context.Context) (driver.Store, error)) { c.link.open = open }

// dial is one attempt to connect.
type dial struct {
	done chan struct{} // closed when the attempt has ended, and err is set
	err  error
}

// Ready connects to the store unless the client is connected. Callers share an attempt,
// which goes on when one of them gives up.
func (c *Client) Ready(ctx context.Context) error {
	if c.Connected() {
		return nil
	}
	d := c.dialOnce()
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.Closed():
		return driver.ErrClosed
	}
}

// Usable is Ready for a call that has no other place where it learns that the client is closed.
func (c *Client) Usable(ctx context.Context) error {
	if c.IsClosed() {
		return driver.ErrClosed
	}
	return c.Ready(ctx)
}

// Reach is Ready for a call that waits. It tries again while the store answers but refuses requests, for example because
// it loads its data, and after a pause of the process, which is no silence of the store.
func (c *Client) Reach(ctx context.Context) error {
	var refused error
	for {
		err := c.Ready(ctx)
		switch {
		case refuses(err):
			refused = err
		case err != nil && driver.FailureOf(err).Passing:
		case err != nil && ctx.Err() != nil && refused != nil:
			return GaveUp(ctx, &participant.RefusedError{Last: refused})
		case err != nil && ctx.Err() != nil:
			return GaveUp(ctx, err)
		default:
			return err
		}
	}
}

// refuses reports whether err says that the store has answered, and may accept requests later.
func refuses(err error) bool {
	if err == nil {
		return false
	}
	f := driver.FailureOf(err)
	return !f.Silent && !f.Lasting
}

// refusals notes since when a store has refused attempts to connect.
type refusals struct{ began, told driver.Instant }

// tell reports whether to tell the observer about an attempt that ended with err: after a second of refusals, and then
// each minute.
func (r *refusals) tell(began driver.Instant, err error) bool {
	now := driver.Now()
	switch {
	case !refuses(err):
		*r = refusals{}
		return false
	case r.began == 0:
		r.began = began
	}
	if now.Sub(r.began) < time.Second || r.told != 0 && now.Sub(r.told) < time.Minute {
		return false
	}
	r.told = now
	return true
}

// dialOnce returns the attempt under way, or begins one.
func (c *Client) dialOnce() *dial {
	l := &c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.IsClosed():
		return dialed(driver.ErrClosed)
	case c.Connected():
		return dialed(nil)
	case l.dial == nil:
		l.dial = &dial{done: make(chan struct{})}
		if !c.Go(c.connect) {
			l.dial = nil
			return dialed(driver.ErrClosed)
		}
	}
	return l.dial
}

// dialed returns an attempt that has ended with err.
func dialed(err error) *dial {
	d := &dial{make(chan struct{}), err}
	close(d.done)
	return d
}

// redialEvery is the least time between two attempts. A refused connection fails at once, and a caller in a
// loop must not open the store thousands of times.
const redialEvery = 500 * time.Millisecond

func (c *Client) connect(ctx context.Context) {
	l := &c.link
	if early := l.again.Sub(driver.Now()); early > 0 {
		select {
		case <-time.After(early):
		case <-ctx.Done():
		}
	}
	began := driver.Now()
	l.again = began.Add(redialEvery)
	var store driver.Store
	var err error
	paused := participant.StandsStill(func() { store, err = l.open(ctx) })
	if err == nil {
		c.Use(store)
	} else if !errors.Is(err, driver.ErrUnavailable) && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		err = fmt.Errorf("%w: %v", driver.ErrUnavailable, err) // hide a context error that is not the caller's
	}
	if l.refusals.tell(began, err) {
		c.config.News(driver.News{Refused: err})
	}
	if f := driver.FailureOf(err); err != nil && paused && f.Silent {
		f.Passing = true
		err = &f
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial.err = err
	close(l.dial.done)
	l.dial = nil
}
