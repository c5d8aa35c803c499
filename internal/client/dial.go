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

// link is how a client gets its store when it is used.
type link struct {
	open func(context.Context) (driver.Store, error) // nil if the store was given
	mu   sync.Mutex                                  // taken before the locks of the client
	dial *dial                                       // under way; nil if none is

	// Only the dial under way uses these.
	again    driver.Instant // before which the next one does not begin
	refusals refusals
}

// Open makes the client connect by open when it is used.
func (c *Client) Open(open func(context.Context) (driver.Store, error)) { c.link.open = open }

// dial is one attempt to connect.
type dial struct {
	done chan struct{} // closed when it has ended, with err
	err  error
}

// Ready connects to the store unless that is done. Callers share an attempt, which goes on
// when one of them gives up.
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

// Reach is Ready for a call that waits: it goes on while the store answers and refuses to be used, as one does that is
// reading its data from disk, and after a pause of the process, which is no silence of the store.
func (c *Client) Reach(ctx context.Context) error {
	var refused error
	for {
		err := c.Ready(ctx)
		switch {
		case refuses(err):
			refused = err
		case err != nil && driver.FailureOf(err).Passing:
		case refused != nil && err != nil && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ctx.Err(), &participant.RefusedError{Last: refused})
		default:
			return err
		}
	}
}

// refuses reports whether err says that the store has answered, and may stop refusing.
func refuses(err error) bool {
	if err == nil {
		return false
	}
	f := driver.FailureOf(err)
	return !f.Silent && !f.Lasting
}

// refusals is how long a store has refused to be used.
type refusals struct{ began, told driver.Instant }

// tell reports whether the observer is to be told of the result of an attempt: after a second, and each minute, as of a
// store that refuses later.
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

// dialOnce returns the attempt that is under way, or begins one.
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

// dialed returns an attempt that has ended.
func dialed(err error) *dial {
	d := &dial{make(chan struct{}), err}
	close(d.done)
	return d
}

// redialEvery is how often a client tries to connect, at most. A refused connection fails at once, and a
// caller that tries again and again must not make a new client of the store thousands of times.
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
		err = fmt.Errorf("%w: %v", driver.ErrUnavailable, err) // not the end of the caller's context
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
