// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Elect makes one of the callers the leader of name, and another when that one is
// gone: it waits for a lease on name, runs lead while it holds it, and when the
// lease is lost waits until lead has returned and stands for election again.
// lead gets a context that ends with the lease, and the lease for its token.
//
//	campaign --> lead --- returns --------> resigned: Elect returns what it did
//	   ^          |
//	   |          | the lease is lost: the context ends
//	   |          v
//	   +---- lead has returned
//
// lead resigns by returning, also because ctx has ended: Elect gives the lease
// back and returns lead's error. What lead returns after its lease was lost does
// not count, as it was told to stop. MaxHold limits a term; others who wait come
// first then.
//
// Elect goes on through outages of the store, but returns the error of one that cannot
// be reached at the beginning; for one that is silent then it waits. It returns
// ctx.Err() if ctx ends while it waits, an error if there is Shared or Slots, with
// which several would lead, and else the errors of Acquire. Who leads is told by
// Inspect to everybody, and by the Observer to this client.
//
// A leader that is paused does not know that another leads by now: what it
// writes then is refused only by a resource that looks at tokens.
func (c *Client) Elect(ctx context.Context, name string, lead func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	ctx = present(ctx)
	set, err := c.settings(opts)
	if err == nil && (set.shared || set.hasSlots) {
		err = errors.New("with Shared or Slots there would be several leaders: leave it out, or use Acquire for as many workers as there are slots")
	}
	if err != nil {
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
		case err != nil && (c.ctx.Err() != nil ||
			!errors.Is(err, ErrUncertain) && !(contact && errors.Is(err, ErrUnavailable))):
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

// term waits for a lease and leads once. It reports whether lead has ended
// it; if not, the lease was lost, or err says why there is none.
func (c *Client) term(ctx context.Context, name string, lead func(context.Context, *Lease) error, opts []Option) (over bool, err error) {
	lease, err := c.Acquire(ctx, name, opts...)
	if err != nil {
		return false, err
	}
	defer func() {
		// A panic in lead passes through, but the others need not wait. A loss in
		// this very moment is no matter to who resigns.
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
