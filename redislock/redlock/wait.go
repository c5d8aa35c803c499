// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A waiter is told by each node that a lock has ended, lets a random time pass if
// others wait too, looks whether a quorum is free, and only then asks: to ask
// while somebody holds the name would take the nodes that the holder has lost and
// wants back. It also looks when the locks of a quorum must have expired, and
// every lookEvery, in case that news were lost.
//
// A writer that finds readers leaves a wish at each node, which lets no more of them
// in, and renews it each time it looks. If it dies, the wish costs the readers
// wishFor at most.

// Acquire implements driver.Queuer. There is no queue: whoever comes first after a
// release gets the name. An outage is borne for a TTL once a quorum of nodes has been heard of.
func (d *Driver) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := d.usable(ctx, req); err != nil {
		return nil, err
	}
	s := d.search(req)
	g, f := s.ask(ctx)
	switch {
	case g != nil:
		return g, nil
	case f.kind == final, f.kind == silent:
		return nil, f.err
	}
	wake := make(chan struct{}, 1)
	for _, m := range d.members {
		defer m.Listen(req.Name, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})()
	}
	var away driver.Outage
	for splits := 0; ; {
		if f.kind == split {
			splits++
		} else {
			splits = 0
		}
		if err := s.rest(ctx, f, splits, wake); err != nil {
			s.giveUp()
			return nil, err
		}
		sent := driver.Now()
		if f = s.look(ctx); f == nil {
			g, f = s.ask(ctx)
		}
		switch {
		case g != nil:
			return g, nil // its release ends the wish where it has the lock
		case f.kind == final, f.kind == silent && !s.heard:
			s.giveUp()
			return nil, f.err
		case f.kind != silent:
			away.Over()
		default:
			if err := away.Failed(sent, req.TTL, f.err); err != nil {
				s.giveUp()
				return nil, err
			}
		}
	}
}

// rest waits until it is time to look again.
func (s *search) rest(ctx context.Context, f *failure, splits int, wake chan struct{}) error {
	d, ttl := s.d, s.req.TTL
	if s.readers && !s.wished {
		return ctx.Err() // until they know that it waits, more of them come
	}
	if splits > 0 {
		return d.sleep(ctx, d.lull(splits, f.waiters, ttl))
	}
	pause := min(f.after, d.jitter(lookEvery))
	if s.wished {
		pause = min(pause, s.wishFor()/3)
	}
	if _, err := d.await(ctx, wake, pause); err != nil {
		return err
	}
	if err := d.sleep(ctx, d.lull(0, f.waiters, ttl)); err != nil {
		return err
	}
	select {
	case <-wake: // the other nodes' news of the same release
	default:
	}
	return nil
}

// wishFor is how long a wish lasts that is not renewed.
func (s *search) wishFor() time.Duration { return min(s.req.TTL, 3*lookEvery) }

// look returns nil if a quorum of nodes is free for the lease.
func (s *search) look(ctx context.Context) *failure {
	f := s.lookOnce(ctx)
	if f != nil && f.kind != final && s.readers && !s.wished {
		f = s.lookOnce(ctx)
	}
	return f
}

func (s *search) lookOnce(ctx context.Context) *failure {
	d := s.d
	d.looks.Add(1)
	answers := s.states()
	f := &failure{kind: held}
	var waits []time.Duration // of nodes that are not free
	var failed misses
	var seen []State
	defer func() { s.saw(seen) }()
	free := 0
	for free+len(waits) < len(d.members) && len(waits)-len(failed) <= len(d.members)-d.quorum {
		select {
		case a := <-answers:
			if a.err != nil {
				failed.add(d.members[a.node], a.err)
				waits = append(waits, lookEvery)
				continue
			}
			st := a.states[0]
			seen = append(seen, st)
			waiters := st.Waiters
			if s.wished {
				waiters = min(waiters, st.Wishes)
			}
			f.waiters = max(f.waiters, waiters)
			s.floor = max(s.floor, st.Floor)
			if wait, shut := st.wait(s.req.Shared), s.closed[a.node].Sub(driver.Now()); wait > 0 {
				waits = append(waits, wait)
			} else if shut > 0 {
				// It would give nothing. To ask all the same would free what the others
				// give, and that would wake all who wait, ourselves too.
				waits = append(waits, shut)
			} else if free++; free >= d.quorum {
				return nil
			}
		case <-ctx.Done():
			return &failure{kind: final, err: ctx.Err()}
		case <-d.ctx.Done():
			return &failure{kind: final, err: unavailable(errClosed)}
		}
	}
	f.after = d.quorumth(waits)
	s.heard = s.heard || free+len(waits)-len(failed) >= d.quorum
	if len(failed) > len(d.members)-d.quorum {
		f.kind, f.err = silent, failed.as(driver.ErrUnavailable, d, d.timeout(s.req.TTL))
		d.probe()
	}
	return f
}

// states asks all nodes how the name is, and leaves or renews the wish there if
// readers were found.
func (s *search) states() <-chan reading {
	timeout := s.d.timeout(s.req.TTL)
	if !s.readers {
		return s.d.read([]string{s.req.Name}, timeout)
	}
	s.wished = true
	return s.want(s.wishFor(), timeout)
}

// want sends a wish to each node once the wish before it has been answered there: one that
// is taken away must not come first.
func (s *search) want(long, timeout time.Duration) <-chan reading {
	w := Wish{Name: s.req.Name, Who: s.req.Lease, For: long}
	answers := make(chan reading, len(s.d.members))
	all := s.d.together(timeout)
	for i, m := range s.d.members {
		before, answered := s.wants[i], make(chan struct{})
		s.wants[i] = answered
		r := reading{node: i}
		m.send(all, func(ctx context.Context) error {
			if before != nil {
				select {
				case <-before:
				case <-ctx.Done():
				}
			}
			st, err := m.Want(ctx, w)
			r.states = []State{st}
			return err
		}, func(err error) {
			close(answered)
			r.err = err
			answers <- r
		})
	}
	return answers
}

// saw notes whether readers were found in a writer's way.
func (s *search) saw(states []State) {
	for _, st := range states {
		s.readers = s.readers || !s.req.Shared && len(st.Locks) > 0 && st.Locks[0].Shared
	}
}

// giveUp takes the wish away, and waits as long as a node may take to answer: who
// gives up does not keep readers out any more.
func (s *search) giveUp() {
	if !s.wished {
		return
	}
	timeout := s.d.timeout(s.req.TTL)
	answers := s.want(0, endTimeout)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for range s.d.quorum {
		select {
		case <-answers:
		case <-timer.C:
			return
		}
	}
}
