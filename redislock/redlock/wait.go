// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A waiter for an exclusive lease is in the queues of all nodes: see queue.go. Whoever
// waits to share the name listens: each node tells it when a lock has ended. It pauses
// for a random time if others wait too, looks whether a quorum is free, and only then
// proposes: a proposal while somebody holds the name would take the nodes that the
// holder has lost and wants back. All waiters also look when the locks of a quorum must
// have expired, and every lookEvery, in case a message was lost.

// Acquire waits until the name is granted. It goes on through an outage for a TTL. If a quorum of nodes
// has never answered this participant, it ends when too many refuse connections, or after the connect timeout.
func (d *Driver) Acquire(ctx context.Context, req *driver.Request) (*grant, error) {
	if err := d.usable(ctx, req); err != nil {
		return nil, err
	}
	s := d.search(req)
	f := s.comesAgain()
	if f == nil {
		var g *grant
		g, f = s.ask(ctx)
		switch {
		case g != nil:
			return g, nil
		case f.kind == final:
			return nil, f.err
		}
	}
	s.place, s.wake = s.floor, make(chan struct{}, 1)
	if req.Shared {
		for _, m := range d.members {
			defer m.Listen(req.Name, func() { signal(s.wake) })()
		}
	}
	g, err := s.wait(ctx, f)
	if err != nil {
		s.giveUp()
		return nil, err
	}
	return g, nil // the release of g ends the wish where g has the lock
}

// comesAgain returns why a name is not asked for that this participant has handed over
// just now.
func (s *search) comesAgain() *failure {
	if s.req.Shared {
		return nil
	}
	if s.floor = s.d.takeHandedOver(s.req.Name); s.floor == 0 {
		return nil
	}
	return &failure{kind: held, after: lookEvery}
}

// wait waits after the failure f.
func (s *search) wait(ctx context.Context, f *failure) (*grant, error) {
	var away driver.Outage
	for splits := 0; ; {
		switch f.kind {
		case final:
			return nil, f.err
		case silent:
			if err := s.bear(&away, f); err != nil {
				return nil, err
			}
		default:
			away.Over()
		}
		if f.kind == split {
			splits++
		} else {
			splits = 0
		}
		propose := false
		// After the first split all that came at once get into the queue, and propose in its order.
		if splits > 1 || s.standing != nil || s.req.Shared { // or it is not in the queues yet
			var err error
			if propose, err = s.rest(ctx, f, splits); err != nil {
				return nil, err
			}
			if g := s.takeTurn(); g != nil {
				return g, nil
			}
		}
		if f = nil; !propose {
			f = s.look(ctx)
		}
		if f == nil {
			var g *grant
			if g, f = s.ask(ctx); g != nil {
				return g, nil
			}
		}
	}
}

// bear returns nil if the wait goes on although too few nodes have answered.
func (s *search) bear(away *driver.Outage, f *failure) error {
	d := s.d
	if d.met.Load() {
		return away.Failed(s.sent, s.req.TTL, f.err)
	}
	if refused := !errors.Is(f.err, driver.ErrSilent); refused || away.Failed(s.sent, d.connect, f.err) != nil {
		return f.err
	}
	return nil
}

// rest waits until it is time to look again, or to propose without a look: to the nodes
// that have voted for the waiter, and the others.
func (s *search) rest(ctx context.Context, f *failure, splits int) (propose bool, err error) {
	d, ttl := s.d, s.req.TTL
	if splits > 0 {
		return false, d.sleep(ctx, d.lull(splits, f.waiters, ttl))
	}
	pause := min(f.after, d.jitter(lookEvery))
	if s.foreign && d.layout.Pattern != "" {
		pause = min(pause, d.jitter(foreignLook))
	}
	if !s.req.Shared {
		pause = min(pause, s.placeFor()/3)
	}
	if _, err := d.await(ctx, s.wake, pause); err != nil {
		return false, err
	}
	if s.req.Shared {
		return s.lull(ctx, d.lull(0, f.waiters, ttl))
	}
	return s.lull(ctx, d.round()) // only the first in the queue was told: nobody is to be kept apart from it
}

// lull waits for pause, while messages of other nodes about the same release come, or for the votes of a quorum once
// a node has voted for the waiter.
func (s *search) lull(ctx context.Context, pause time.Duration) (propose bool, err error) {
	for end := driver.Now().Add(pause); !s.turn.voted(); {
		left := end.Sub(driver.Now())
		if left <= 0 {
			return false, nil
		}
		if _, err := s.d.await(ctx, s.wake, left); err != nil {
			return false, err
		}
	}
	_, err = s.d.await(ctx, s.turn.settled, s.d.patience())
	return true, err
}
