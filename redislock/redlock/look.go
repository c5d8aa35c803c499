// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// A writer that finds readers leaves a wish at each node, which admits no more readers
// then. The writer renews the wish each time it looks. If it dies, the wish keeps
// readers out for placeFor at most.

// placeFor is how long a node remembers a place in its queue, or a wish, that is not renewed;
// no longer than PLACES of enqueue.lua.
func (s *search) placeFor() time.Duration { return min(s.req.TTL, 3*lookEvery) }

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
	if err := d.enter(ctx, wanting); err != nil {
		return &failure{kind: final, err: err}
	}
	defer d.leave(wanting)
	s.sent = driver.Now()
	d.looks.Add(1)
	v := new(view)
	defer func() { s.saw(v.states) }()
	switch err := s.read(ctx, v); {
	case err != nil:
		return &failure{kind: final, err: err}
	case v.free >= d.quorum:
		return s.yield(v.ahead)
	}
	f := &failure{kind: held, waiters: v.waiters, after: d.quorumth(v.waits)}
	if v.free+len(v.waits)-len(v.failed) >= d.quorum {
		d.met.Store(true)
	}
	if len(v.failed) > len(d.members)-d.quorum {
		f.kind, f.err = silent, v.failed.as(driver.ErrUnavailable, d, d.timeout(s.req.TTL))
	}
	return f
}

// view is what nodes have said of a name.
type view struct {
	states  []nodewire.State
	waits   []time.Duration // of nodes that are not free
	failed  misses          // they are not free, either
	free    int
	ahead   int // before the waiter, at free nodes
	waiters int
}

// read asks all nodes, and returns as soon as it is certain whether a quorum is free.
func (s *search) read(ctx context.Context, v *view) error {
	d := s.d
	answers, err := s.states()
	if err != nil {
		return err
	}
	for range d.members {
		if v.free >= d.quorum || len(v.waits)-len(v.failed) > len(d.members)-d.quorum {
			return nil
		}
		select {
		case a := <-answers:
			s.add(v, a)
		case <-ctx.Done():
			return ctx.Err()
		case <-d.ctx.Done():
			return unavailable(errClosed)
		}
	}
	return nil
}

func (s *search) add(v *view, a reading) {
	if a.err != nil {
		v.failed.add(s.d.members[a.node], a.err)
		v.waits = append(v.waits, lookEvery)
		return
	}
	st := a.states[0]
	if s.standing != nil && len(st.Locks) == 1 && st.Locks[0].Lease == s.standing.lease {
		st.Locks = nil // it was handed over to this waiter
	}
	v.states = append(v.states, st)
	v.waiters = max(v.waiters, st.Waiters)
	s.floor = max(s.floor, st.Floor)
	if wait, shut := waitOf(st, s.req.Shared), s.closed[a.node].Sub(driver.Now()); wait > 0 {
		v.waits = append(v.waits, wait)
	} else if shut > 0 {
		// This node grants nothing. Asking anyway would fail, and giving back
		// what the others grant would wake all waiters, this one too.
		v.waits = append(v.waits, shut)
	} else {
		v.free, v.ahead = v.free+1, max(v.ahead, st.Ahead)
	}
}

// longestYield bounds the time in which waiters that are before another one should have proposed:
// they may be gone, and the name free.
const longestYield = 200 * time.Millisecond

// yield returns nil if it is the turn of this waiter to propose, where others are before it in the
// queues of free nodes, as when many come at once. It lets them propose, once: one
// that is gone does not hold up the others.
func (s *search) yield(ahead int) *failure {
	if ahead == 0 || s.yielded {
		s.yielded = false
		return nil
	}
	s.yielded = true
	return &failure{kind: held, after: min(time.Duration(ahead)*max(2*s.d.round(), time.Millisecond), longestYield)}
}

// states asks all nodes for the state of the name. A waiter for an exclusive lease is in
// their queues then, and leaves or renews its wish if readers were found.
func (s *search) states() (<-chan reading, error) {
	if s.req.Shared {
		return s.d.read([]string{s.req.Name}, s.req.TTL, false), nil
	}
	answers, err := s.enqueue()
	if s.readers && err == nil {
		s.wished = true
		answers = s.want(s.placeFor())
	}
	return answers, err
}

// want sends a wish to each node once the node has answered the wish before: the end of
// a wish must not arrive before the wish.
func (s *search) want(long time.Duration) <-chan reading {
	w := nodewire.Wish{Name: s.req.Name, Who: s.req.Lease, For: long}
	answers := make(chan reading, len(s.d.members))
	all := s.d.together(len(s.d.members), s.req.TTL, false)
	for i, m := range s.d.members {
		before, answered := s.wants[i], make(chan struct{})
		s.wants[i] = answered
		send(m, all, func(ctx context.Context) (nodewire.State, error) {
			if before != nil {
				select {
				case <-before:
				case <-ctx.Done():
				}
			}
			return m.Want(ctx, w)
		}, func(st nodewire.State, err error) {
			close(answered)
			answers <- reading{node: i, states: []nodewire.State{st}, err: err}
		})
	}
	return answers
}

// saw records whether readers were found to keep a writer out.
func (s *search) saw(states []nodewire.State) {
	s.foreign = false
	for _, st := range states {
		s.foreign = s.foreign || len(st.Locks) > 0 && st.Locks[0].Record == ""
		s.readers = s.readers || !s.req.Shared && len(st.Locks) > 0 && st.Locks[0].Shared
	}
}

// giveUp leaves the queues and takes the wish away, and waits as long as a node may take
// to answer, so that a waiter that has given up no longer keeps others out.
func (s *search) giveUp() {
	timer := time.NewTimer(s.d.graceOf(s.req.TTL))
	defer timer.Stop()
	var left <-chan ended
	if c := s.standing; c != nil {
		s.leave()
		left = c.end("")
	}
	if s.wished {
		taken := s.want(0)
		awaitQuorum(s.d, taken, timer)
	}
	if left != nil {
		awaitQuorum(s.d, left, timer)
	}
}

// awaitQuorum waits until a quorum has answered, or all if fewer were asked, or timer.
func awaitQuorum[T any](d *Driver, answers <-chan T, timer *time.Timer) {
	for range min(d.quorum, cap(answers)) {
		select {
		case <-answers:
		case <-timer.C:
			timer.Reset(0)
			return
		}
	}
}
