// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
)

// Elect makes one of its callers the leader of name: it waits for a lease on name, and runs lead
// while it holds the lease. lead gets a context that ends with the lease, and the lease. When
// the lease is lost, Elect waits until lead has returned, and then waits for a lease again.
//
//	campaign --> lead --- returns --------> resigned: Elect returns what it did
//	   ^          |
//	   |          | the lease is lost: the context ends
//	   |          v
//	   +---- lead has returned
//
// lead resigns by returning, for example because ctx has ended: Elect then releases the lease
// and returns the error of lead. If the lease was lost, Elect ignores the error of lead. MaxHold
// limits a term; then a candidate that waits leads next.
//
// Elect goes on when the store does not answer, unless the store cannot be reached at the
// beginning: then Elect returns the error. It returns ctx.Err() if ctx ends while it waits, an
// error with Shared or Slots, which would make several leaders, and otherwise the errors of
// Acquire. Observe and Inspect show the leader to every client, with the text of the option Why.
// The Observer reports the terms of this client.
//
// A leader that was paused may not know yet that another one leads. Only a resource that checks
// tokens refuses its late writes.
func (c *Client) Elect(ctx context.Context, name string, lead func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	ctx = present(ctx)
	if lead == nil {
		return noWork("elect", name)
	}
	if err := c.core.Reach(ctx); err != nil {
		return c.opError(ctx, "elect", name, err)
	}
	if err := c.checkElect(opts); err != nil {
		return wrap("elect", name, err)
	}
	pause, contact := minPause, false
	for {
		began := time.Now()
		over, err := c.term(ctx, name, lead, opts)
		var cut *driver.SilentError
		contact = contact || err == nil || errors.As(err, &cut)
		switch {
		case over:
			return err
		case ctx.Err() != nil:
			return c.opError(ctx, "elect", name, client.GaveUp(ctx, nil))
		case err != nil && !c.outlasts(err, contact):
			return err
		}
		if time.Since(began) > time.Minute {
			pause = minPause // it went well for a while
		}
		select {
		case <-time.After(pause/2 + c.core.Spread(pause/2)):
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
	case set.Terms.Idle > 0:
		return errors.New("with KeepIdle a leader that has resigned would seem to lead: leave it out")
	}
	return nil
}

// outlasts reports whether Elect goes on after an error of Acquire. contact says that the store
// has answered before.
func (c *Client) outlasts(err error, contact bool) bool {
	return !c.core.IsClosed() && (errors.Is(err, ErrUncertain) || contact && errors.Is(err, ErrUnavailable))
}

// term waits for a lease and leads once. over says that lead has ended the term. If not,
// the lease was lost, or err says why there was no lease.
func (c *Client) term(ctx context.Context, name string, lead func(context.Context, *Lease) error, opts []Option) (over bool, err error) {
	lease, err := c.Acquire(ctx, name, opts...)
	if err != nil {
		return false, err
	}
	defer func() {
		// Deferred, so that a panic in lead does not make the other candidates wait. If
		// the lease is lost just now, that does not matter: this leader resigns anyway.
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
	c.observer.deposed(lease.inner(), err)
	return false, nil
}

// minPause and maxPause bound the pause before a call begins anew.
const (
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// observeEvery is how often Observe asks the store, at most.
const observeEvery = time.Second

// Observe yields the leader of name, at once and after each change. A Held without a Lease means
// that nobody leads. Held.Why is the text that the leader gave to Elect with the option Why, such
// as its address.
//
//	for leader, err := range locks.Observe(ctx, "scheduler") {
//		…
//	}
//
// Observe asks the store about once a second, so it can be a second late and miss a shorter
// term. It never goes back to an earlier term, even if the store shows one. The answer may be
// out of date when it is read: check the Token of the leader where only the leader may act.
//
// If the store does not answer, Observe yields ErrUnavailable once and goes on. It ends when ctx
// ends, and after any other error: a bad name, ErrDenied, ErrClosed, or errors.ErrUnsupported if
// the store cannot say who holds what.
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Held, error] {
	ctx = present(ctx)
	return func(yield func(Held, error) bool) {
		var seen *Held // yielded last; nil after an error
		var latest Token
		for away := false; ; {
			leader, stale, err := c.leader(ctx, name, latest)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !away && !yield(Held{}, err) || !errors.Is(err, ErrUnavailable) {
					return
				}
				away, seen = true, nil
			case !stale && (seen == nil || !sameTerm(*seen, leader)):
				away, seen, latest = false, &leader, max(latest, leader.Token)
				if !yield(leader, nil) {
					return
				}
			}
			select {
			case <-time.After(observeEvery - c.core.Spread(observeEvery/10)):
			case <-ctx.Done():
				return
			case <-c.core.Closed():
			}
		}
	}
}

// leader asks the store who leads. stale says that the store has shown a state from before the
// term with the token latest.
func (c *Client) leader(ctx context.Context, name string, latest Token) (leader Held, stale bool, err error) {
	var info *driver.Info
	if err := c.ready(ctx, name); err != nil {
		return Held{}, false, wrap("observe", name, err)
	}
	err = c.ask(ctx, func(ctx context.Context) (err error) {
		info, err = c.core.Participant().Inspect(ctx, name)
		return err
	})
	if err != nil {
		return Held{}, false, c.opError(ctx, "observe", name, err)
	}
	shown := info.Token
	if len(info.Holders) > 0 && info.Holders[0].Transaction == nil {
		leader = *heldOf(&info.Holders[0])
		shown = leader.Token
	}
	return leader, shown != 0 && shown < latest, nil
}

// sameTerm compares everything that a renewal does not change.
func sameTerm(a, b Held) bool {
	return a.Lease == b.Lease && a.Token == b.Token && a.Holder == b.Holder && a.Why == b.Why
}

// Do runs f while holding a lease on name, for which it waits as Acquire does. The context of
// f ends with the lease. Do returns the error of f, or of acquiring or releasing. If the lease
// ended while f ran, the error is also ErrLost or ErrReleased, whatever f returned.
func (c *Client) Do(ctx context.Context, name string, f func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	return do(ctx, "acquire", c.Acquire, name, f, opts)
}

// TryDo runs f while holding a lease on name, if TryAcquire gets one. If not, TryDo returns the
// error of TryAcquire and does not call f: ErrHeld says that somebody else holds the name.
// Otherwise TryDo is like Do.
func (c *Client) TryDo(ctx context.Context, name string, f func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	return do(ctx, "try", c.TryAcquire, name, f, opts)
}

func noWork(op, name string) error {
	return wrap(op, name, errors.New("the function to call is nil: give the work to be done under the lease"))
}

// acquireOne is Client.Acquire or Client.TryAcquire.
type acquireOne func(ctx context.Context, name string, opts ...Option) (*Lease, error)

func do(ctx context.Context, op string, one acquireOne, name string, f func(context.Context, *Lease) error, opts []Option) (err error) {
	ctx = present(ctx)
	if f == nil {
		return noWork(op, name)
	}
	l, err := one(ctx, name, opts...)
	if err != nil {
		return err
	}
	defer func() {
		// If the lease had ended before, the work was not done under it.
		ended := l.Err()
		cause := l.inner().Cause()
		if rel := l.Release(ctx); ended == nil {
			ended, cause = rel, rel
		}
		switch {
		case ended == nil:
		case err == nil:
			err = ended
		case errors.Is(err, cause): // f has returned how its context ended
			err = client.Only(err)
		default:
			err = client.Only(fmt.Errorf("%w; %w", ended, err))
		}
	}()
	ctx, cancel := l.Context(ctx)
	defer cancel()
	return f(ctx, l)
}
