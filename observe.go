// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// observeEvery is how often Observe asks the store, at most.
const observeEvery = time.Second

// Observe tells who leads name: at once, and then each time that it has changed. A Held
// without a Lease means that nobody does. What a candidate has given to Elect as Why is in
// Held.Why: it is the leader's value, such as its address.
//
//	for leader, err := range locks.Observe(ctx, "scheduler") {
//		…
//	}
//
// It asks the store about once a second: it can be a second late, and misses a term that is
// shorter. It never goes back to an earlier term, even if the store shows one. Like Inspect
// it does not say who leads now: a request that only the leader may serve needs the
// leader's Token.
//
// It goes on when the store cannot be asked, of which it tells once, with an error that is
// ErrUnavailable. It ends when ctx ends, and after any other error: that of a bad name,
// ErrDenied, ErrClosed, or errors.ErrUnsupported if the store cannot say who holds what.
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Held, error] {
	ctx = present(ctx)
	return func(yield func(Held, error) bool) {
		var seen *Held // what was told last; nil after an error
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
			case <-time.After(observeEvery - c.random.spread(observeEvery/10)):
			case <-ctx.Done():
				return
			case <-c.ctx.Done():
			}
		}
	}
}

// leader asks the store who leads. What it shows is stale if it was so before the term with
// the token latest.
func (c *Client) leader(ctx context.Context, name string, latest Token) (leader Held, stale bool, err error) {
	err = c.usable(ctx)
	if err == nil {
		err = driver.CheckName(name)
	}
	if err != nil {
		return Held{}, false, &Error{"observe", driver.Shorten(name), err}
	}
	untilClose, cancel := c.untilClose(ctx)
	defer cancel()
	asking, stop := context.WithTimeout(untilClose, requestTimeout)
	defer stop()
	info, err := c.store.Inspect(asking, name)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: it has not answered for %v", ErrUnavailable, requestTimeout)
		}
		return Held{}, false, c.opError(ctx, "observe", name, err)
	}
	shown := info.Token
	if len(info.Holders) > 0 && info.Holders[0].Transaction == nil {
		leader = info.Holders[0]
		shown = leader.Token
	}
	return leader, shown != 0 && shown < latest, nil
}

// sameTerm compares all but what a renewal changes.
func sameTerm(a, b Held) bool {
	return a.Lease == b.Lease && a.Token == b.Token && a.Holder == b.Holder && a.Why == b.Why
}
