// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// reply is what one node has answered, or why it has not.
type reply[T any] struct {
	node   int
	answer T
	err    error
}

// each calls f for all nodes at once. The channel gets one reply from each.
func each[T any](d *store, f func(*member) (T, error)) <-chan reply[T] {
	replies := make(chan reply[T], len(d.members))
	for i, m := range d.members {
		if !d.background(func() {
			answer, err := f(m)
			replies <- reply[T]{i, answer, err}
		}) {
			replies <- reply[T]{node: i, err: unavailable(errClosed)}
		}
	}
	return replies
}

// gather calls add with the replies until add returns true, until all have come, or until ctx or, with Done, the store ends.
// If there is a grace, gather waits for only so long once a quorum has answered. Then the other nodes have the reply errSilent.
func gather[T any](ctx context.Context, d *store, done <-chan struct{}, replies <-chan reply[T], grace func(heard []bool) time.Duration, add func(reply[T]) bool) error {
	var enough <-chan time.Time
	heard, alive := make([]bool, len(d.members)), 0
	for range cap(replies) {
		select {
		case r := <-replies:
			if heard[r.node] = true; add(r) {
				return nil
			}
			if r.err == nil {
				alive++
			}
			if grace != nil && enough == nil && alive == d.quorum {
				enough = time.After(grace(heard))
			}
		case <-enough:
			for i := range heard {
				if !heard[i] {
					add(reply[T]{node: i, err: errSilent})
				}
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			return unavailable(errClosed)
		}
	}
	return nil
}

// gatherAll calls add with the answers of all nodes, or of those that answer within a grace once a quorum has. It returns
// an error if fewer than a quorum answer, or if ctx ends.
func gatherAll[T any](ctx context.Context, d *store, replies <-chan reply[T], add func(node int, answer T)) error {
	var failed misses
	err := gather(ctx, d, nil, replies, d.behind, func(r reply[T]) bool {
		if r.err != nil {
			failed.add(d.members[r.node], r.err)
		} else {
			add(r.node, r.answer)
		}
		return false
	})
	if err == nil {
		err = d.heard(failed)
	}
	return err
}

// heard returns an error unless a quorum has answered. The error is ErrUnavailable, because
// the request records nothing.
func (d *store) heard(failed misses) error {
	if len(d.members)-len(failed) < d.quorum {
		return failed.as(driver.ErrUnavailable, d, 0)
	}
	return nil
}

// allAtOnce calls f for all these nodes at once, and returns the errors in their order.
func allAtOnce(nodes []*redisNode, f func(*redisNode) error) []error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = f(n) })
	}
	all.Wait()
	return errs
}
