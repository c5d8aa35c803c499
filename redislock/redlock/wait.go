// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Each node notifies a waiter when a lock has ended. The waiter pauses for a random
// time if others wait too, looks whether a quorum is free, and only then asks: asking
// while somebody holds the name would take the nodes that the holder has lost and wants
// back. The waiter also looks when the locks of a quorum must have expired, and every
// lookEvery, in case a message was lost.
//
// A writer that finds readers leaves a wish at each node, which admits no more readers
// then. The writer renews the wish each time it looks. If it dies, the wish keeps
// readers out for wishFor at most.

// Acquire implements driver.Queuer. There is no queue: the waiter that comes first
// after a release gets the name. Once a quorum of nodes has answered, Acquire goes on
// through an outage for a TTL.
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
			return g, nil // the release of g ends the wish where g has the lock
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
		return ctx.Err() // readers go on coming until the nodes have the wish
	}
	if splits > 0 {
		return d.sleep(ctx, d.lull(splits, f.waiters, ttl))
	}
	pause := min(f.after, d.jitter(lookEvery))
	if s.foreign && d.layout.Pattern != "" {
		pause = min(pause, d.jitter(foreignLook))
	}
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
	case <-wake: // messages of other nodes about the same release
	default:
	}
	return nil
}

// wishFor is how long a wish lasts if it is not renewed.
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
				// This node grants nothing. Asking anyway would fail, and giving back
				// what the others grant would wake all waiters, this one too.
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

// states asks all nodes for the state of the name, and leaves or renews the wish there
// if readers were found.
func (s *search) states() <-chan reading {
	timeout := s.d.timeout(s.req.TTL)
	if !s.readers {
		return s.d.read([]string{s.req.Name}, timeout)
	}
	s.wished = true
	return s.want(s.wishFor(), timeout)
}

// want sends a wish to each node once the node has answered the wish before: the end of
// a wish must not arrive before the wish.
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

// saw records whether readers were found to keep a writer out.
func (s *search) saw(states []State) {
	s.foreign = false
	for _, st := range states {
		s.foreign = s.foreign || len(st.Locks) > 0 && st.Locks[0].Record == ""
		s.readers = s.readers || !s.req.Shared && len(st.Locks) > 0 && st.Locks[0].Shared
	}
}

// giveUp takes the wish away, and waits as long as a node may take to answer, so that a
// waiter that has given up no longer keeps readers out.
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
