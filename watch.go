// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// maxHolds and maxHoldsText bound what a waiter's record says of the leases that it holds.
	maxHolds     = 8
	maxHoldsText = 2048

	// maxSights bounds the requests of one look for a deadlock, without that for the name that
	// the call waits for, and those that confirm.
	maxSights = 16

	// soon is for how long a waiter has just begun.
	soon = time.Second

	// lookEvery is the pause between two looks of a call that has waited for long.
	lookEvery = time.Minute
)

// lookAfter are the first pauses. What a hand-off takes is no time to look in. The last waiter
// of a circle closes it, and its first look is after that. The next looks are for circles
// that did not show: of calls that began at the same time, or behind others of their client,
// or when a store did not answer.
var lookAfter = [...]time.Duration{50 * time.Millisecond, soon, 10 * time.Second}

// under returns the leases whose contexts ctx was made from, of any client, the innermost
// first.
func under(ctx context.Context) (leases []*Lease) {
	for {
		lc, ok := ctx.Value(leaseKey{}).(*leaseContext)
		if !ok {
			return leases
		}
		if !slices.Contains(leases, lc.lease) && lc.lease.Err() == nil {
			leases = append(leases, lc.lease)
		}
		ctx = lc.Context
	}
}

// holdsOf returns what a waiter's record says of the leases that the caller holds, the first
// one first. If they are too many it leaves out the first.
func holdsOf(leases []*Lease, others []driver.Hold) (holds []driver.Hold) {
	text := 0
	add := func(h driver.Hold) {
		if text += len(h.Name) + len(h.Lease); len(holds) < maxHolds && text <= maxHoldsText {
			holds = append(holds, h)
		}
	}
	for _, l := range leases {
		add(driver.Hold{Name: l.grant.name, Lease: l.grant.id})
	}
	for _, h := range slices.Backward(others) {
		add(h)
	}
	slices.Reverse(holds)
	return holds
}

// watch looks for deadlocks while a call of Acquire waits that holds other leases. It is the
// context of the call, and ends with a deadlock too.
type watch struct {
	context.Context
	call    context.Context
	client  *Client
	clients []*Client // whose stores are looked at: this one, and those of the leases that are held
	leases  []*Lease
	me      Waiter
	name    string
	timer   *time.Timer
	looks   int
	cancel  context.CancelCauseFunc
	dead    atomic.Pointer[DeadlockError]
}

// watch begins to watch. The caller has to call stop.
func (c *Client) watch(ctx context.Context, req *driver.Request, leases []*Lease) *watch {
	w := &watch{call: ctx, client: c, clients: []*Client{c}, leases: leases, name: req.Name}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	for _, l := range leases {
		if other := l.grant.client; !slices.Contains(w.clients, other) {
			w.clients = append(w.clients, other)
		}
	}
	w.me = Waiter{Holder: *c.holder, Lease: req.Lease, Since: time.Now().Round(0), Why: req.Why, Shared: req.Shared, Slots: req.Slots, Holds: req.Holds}
	w.timer = time.AfterFunc(lookEvery, w.look)
	w.again()
	return w
}

// Err is that of the call's context, which may look at the clock.
func (w *watch) Err() error {
	_ = w.call.Err() // which ends this one too
	return w.Context.Err()
}

func (w *watch) stop() {
	w.timer.Stop() // if it is set once more, look finds that the context has ended
	w.cancel(context.Canceled)
}

// again sets the time of the next look.
func (w *watch) again() {
	pause := lookEvery
	if w.looks < len(lookAfter) {
		pause = lookAfter[w.looks]
	}
	w.timer.Reset(pause + w.client.random.spread(pause/10))
}

// look looks once, in the background, which Close waits for.
func (w *watch) look() {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	if w.Context.Err() != nil || w.client.closed {
		return
	}
	w.client.background.Go(func() {
		dead, yields := w.deadlock()
		switch {
		case yields:
			w.timer.Reset(soon)
		case dead != nil:
			w.dead.Store(dead)
			w.cancel(dead)
		default:
			w.looks++
			w.again()
		}
	})
}

// deadlock returns the circle that the call is in, if that is certain, and whether the call leaves
// the error to another.
func (w *watch) deadlock() (dead *DeadlockError, yields bool) {
	ctx, cancel := context.WithTimeout(w, requestTimeout)
	defer cancel()
	circle, by := w.circle(ctx)
	if circle == nil || !w.confirm(ctx, circle, by) {
		return nil, false
	}
	return &DeadlockError{blocked(circle)}, w.yields(circle, time.Now())
}

// sights are what was seen, and through which client.
type sights map[*Info]*Client

// search is what one look has found.
type search struct {
	by     sights
	looked map[string]bool
	left   int // of maxSights
	graph
}

// circle looks at the names that the call holds, at those that their waiters hold, and so on. It
// looks at the name that the call waits for, whose queue may be long, only if one of those waiters
// holds something too: else there is no circle.
func (w *watch) circle(ctx context.Context) ([]edge, sights) {
	s := &search{make(sights), make(map[string]bool), maxSights, make(graph)}
	next := w.see(ctx, s, w.me.Holds)
	if len(next) == 0 && !slices.ContainsFunc(w.me.Holds, func(h driver.Hold) bool { return h.Name == w.name }) {
		return nil, nil
	}
	wanted, err := w.client.Inspect(ctx, w.name)
	if err != nil || !slices.ContainsFunc(wanted.Holders, func(h Held) bool { return inTheWay(&h, &w.me) }) {
		return nil, nil
	}
	s.by[wanted] = w.client
	s.add(wanted)
	for me := (node{&w.me, wanted}); ; next = w.see(ctx, s, next) {
		if circle := s.circle(me); circle != nil || len(next) == 0 {
			return circle, s.by
		}
	}
}

// see looks at the names of holds that were not looked at before. It returns what their waiters
// hold.
func (w *watch) see(ctx context.Context, s *search, holds []driver.Hold) (next []driver.Hold) {
	for _, h := range holds {
		if s.looked[h.Name] {
			continue
		}
		s.looked[h.Name] = true
		for _, c := range w.clients {
			if s.left == 0 {
				return next
			}
			s.left--
			info, err := c.Inspect(ctx, h.Name)
			if err != nil {
				continue
			}
			s.by[info] = c
			s.add(info)
			for _, waiter := range info.Waiters {
				next = append(next, waiter.Holds...)
			}
		}
	}
	return next
}

// confirm looks at each edge again. All of them were seen before the first is seen again: if
// they still stand, all were there in that instant. What was seen in the first round alone
// may never have been there at the same time.
func (w *watch) confirm(ctx context.Context, circle []edge, by sights) bool {
	for i, e := range circle {
		later, err := by[e.info].Inspect(ctx, e.info.Name)
		if err != nil || !e.stands(later, i == 0) {
			return false
		}
	}
	// With a context that was cut loose, the call may wait on when a lease has ended. Another
	// call of the client may have its grant by now, under the same id.
	return ctx.Err() == nil && !slices.ContainsFunc(w.leases, func(l *Lease) bool { return l.Err() != nil })
}

// yields reports whether another call of the circle is to be the one with the error: one that has
// begun later, and just now, so that it looks for itself. All compare what the store tells of when
// they began, which may be by other clocks than ours, and then the ids of the leases in the circle.
func (w *watch) yields(circle []edge, now time.Time) bool {
	began, mine := w.me.Since, circle[len(circle)-1].by.Lease
	for _, waiter := range circle[0].info.Waiters {
		if waiter.Lease == w.me.Lease {
			began = waiter.Since
		}
	}
	age := now.Sub(w.me.Since)
	for i, e := range circle[1:] {
		later := e.waiter.Since.Sub(began)
		if (age-later).Abs() < soon && (later > 0 || later == 0 && circle[i].by.Lease > mine) {
			return true
		}
	}
	return false
}
