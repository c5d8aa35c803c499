// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// Connect is New with the store that open returns, for the packages of stores. If the store
// is unavailable at that moment, the client is returned all the same, and calls open again
// when it is used. Any other error of open, such as for a URL that is wrong, is returned, and so
// is one that is fs.ErrInvalid or errors.ErrUnsupported: that does not pass.
// open must bound its time. Each call of it makes another store.
func Connect(ctx context.Context, open func(context.Context) (driver.Store, error), opts *Options) (*Client, error) {
	ctx = present(ctx)
	store, err := open(ctx)
	switch {
	case err == nil:
		c, err := New(store, opts)
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		return c, nil
	case ctx.Err() != nil || !errors.Is(only(err), ErrUnavailable) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, errors.ErrUnsupported):
		return nil, &Error{Op: "open", Err: err}
	}
	c, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	c.open = open
	return c, nil
}

// dial is one attempt to connect.
type dial struct {
	done chan struct{} // closed when it has ended, with err
	err  error
}

// ready connects to the store unless that is done. Callers share an attempt, which goes on
// when one of them gives up.
func (c *Client) ready(ctx context.Context) error {
	if c.connected.Load() {
		return nil
	}
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return ErrClosed
	case c.connected.Load():
		c.mu.Unlock()
		return nil
	case c.dial == nil:
		c.dial = &dial{done: make(chan struct{})}
		c.background.Go(c.connect)
	}
	d := c.dial
	c.mu.Unlock()
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrClosed
	}
}

// redialEvery is how often a client tries to connect, at most. A refused connection fails at once, and a
// caller that tries again and again must not make a new client of the store thousands of times.
const redialEvery = 500 * time.Millisecond

func (c *Client) connect() {
	if early := c.redialAt.Sub(driver.Now()); early > 0 {
		select {
		case <-time.After(early):
		case <-c.ctx.Done():
		}
	}
	c.redialAt = driver.Now().Add(redialEvery)
	store, err := c.open(c.ctx)
	if err == nil {
		if err = c.use(store); err != nil {
			err = errors.Join(err, store.Close())
		}
	} else if !errors.Is(err, ErrUnavailable) && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		err = fmt.Errorf("%w: %v", ErrUnavailable, err) // not the end of the caller's context
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial.err = err
	close(c.dial.done)
	c.dial = nil
}

// use makes store the client's, unless it lacks what the client requires.
func (c *Client) use(store driver.Store) error {
	g := store.Caps().Guarantees
	if missing := g.Missing(c.require); missing != nil {
		return fmt.Errorf("this store cannot give %s: use another store, or do not require it: %w",
			strings.Join(missing, ", "), errors.ErrUnsupported)
	}
	c.store = participant.New(store, participant.Options{
		Random: c.random.another(), News: c.observer.news, NotEnded: c.observer.notGivenBack,
	})
	c.guarantees = g
	c.connected.Store(true)
	return nil
}

// Ping connects to the store if the client is not connected yet, and asks it something. It
// returns nil if the store answers, and otherwise the error that Acquire would return: a
// program calls it when it starts, if it is not to wait for its store. It takes at most five
// seconds, or the time to connect.
func (c *Client) Ping(ctx context.Context) error {
	ctx = present(ctx)
	err := c.ready(ctx)
	switch {
	case c.ctx.Err() != nil:
		err = ErrClosed
	case err == nil:
		err = c.ping(ctx)
	}
	if err != nil {
		return c.opError(ctx, "ping", "", err)
	}
	return nil
}

func (c *Client) ping(ctx context.Context) error {
	asking, cancel := c.untilClose(ctx)
	defer cancel()
	asking, stop := context.WithTimeout(asking, requestTimeout)
	defer stop()
	_, err := c.store.Inspect(asking, "ping")
	if errors.Is(err, errors.ErrUnsupported) { // of any name
		_, err = c.store.Describe(asking)
	}
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: it has not answered for %v", ErrUnavailable, requestTimeout)
	}
	return err
}
