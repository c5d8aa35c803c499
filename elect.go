// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Elect makes one of its callers the leader of name, and another one when that leader
// is gone. It waits for a lease on name and runs lead while it holds the lease. When
// the lease is lost, it waits until lead has returned and then stands for election
// again. lead gets a context that ends with the lease, and the lease for its token.
//
//	campaign --> lead --- returns --------> resigned: Elect returns what it did
//	   ^          |
//	   |          | the lease is lost: the context ends
//	   |          v
//	   +---- lead has returned
//
// lead resigns by returning, for example because ctx has ended: Elect gives the lease
// back and returns lead's error. Elect ignores what lead returns after its lease was
// lost, as lead was told to stop. MaxHold limits a term; the other candidates that wait
// come first then.
//
// Elect goes on through outages of the store. Only if the store cannot be reached at
// the beginning, Elect returns the error; it waits for a store that is silent then. It
// returns ctx.Err() if ctx ends while it waits, an error if the options have Shared or
// Slots, with which several would lead, and otherwise the errors of Acquire. Observe
// and Inspect show the leader to every client, with what the option Why says of it; the
// Observer reports the terms of this one.
//
// A paused leader may not know yet that another one leads. Only a resource that checks
// tokens refuses what it writes then.
func (c *Client) Elect(ctx context.Context, name string, lead func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	ctx = present(ctx)
	if lead == nil {
		return noWork("elect", name)
	}
	if err := c.ready(ctx); err != nil {
		return c.opError(ctx, "elect", driver.Shorten(name), err)
	}
	if err := c.checkElect(opts); err != nil {
		return &Error{Op: "elect", Name: driver.Shorten(name), Err: err}
	}
	pause, contact := minPause, false
	for {
		began := time.Now()
		over, err := c.term(ctx, name, lead, opts)
		var cut *SilentError
		contact = contact || err == nil || errors.As(err, &cut)
		switch {
		case over:
			return err
		case ctx.Err() != nil:
			return c.opError(ctx, "elect", name, left(ctx, nil))
		case err != nil && !c.outlasts(err, contact):
			return err
		}
		if time.Since(began) > time.Minute {
			pause = minPause // it went well for a while
		}
		select {
		case <-time.After(pause/2 + c.random.spread(pause/2)):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// checkElect returns an error if the options make no sense for a leader.
func (c *Client) checkElect(opts []Option) error {
	set, err := c.settings(opts)
	switch {
	case err != nil:
		return err
	case set.shared || set.hasSlots:
		return errors.New("with Shared or Slots there would be several leaders: leave it out, or use Acquire for as many workers as there are slots")
	case set.keepIdle > 0:
		return errors.New("with KeepIdle a leader that has resigned would seem to lead: leave it out")
	}
	return nil
}

// outlasts reports whether Elect goes on after an error of Acquire. contact: the store has
// answered before.
func (c *Client) outlasts(err error, contact bool) bool {
	return c.ctx.Err() == nil && (errors.Is(err, ErrUncertain) || contact && errors.Is(err, ErrUnavailable))
}

// term waits for a lease and leads once. It reports whether lead has ended the term. If
// not, the lease was lost, or err says why there was none.
func (c *Client) term(ctx context.Context, name string, lead func(context.Context, *Lease) error, opts []Option) (over bool, err error) {
	lease, err := c.Acquire(ctx, name, opts...)
	if err != nil {
		return false, err
	}
	defer func() {
		// A panic in lead passes through, but the other candidates need not wait. If
		// the lease is lost at this very moment, that does not matter: this leader
		// resigns anyway.
		if rel := lease.Release(ctx); over && err == nil && !errors.Is(rel, ErrLost) {
			err = rel
		}
	}()
	leading, cancel := lease.Context(ctx)
	defer cancel()
	err = lead(leading, lease)
	if !errors.Is(lease.Err(), ErrLost) {
		return true, err
	}
	c.observer.deposed(lease, err)
	return false, nil
}
