// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

const (
	lookAfter = time.Second // how long a call waits before it looks for a deadlock
	lookEvery = time.Minute // the longest pause; it looks again after 1, 2, 4, … seconds
	maxSights = 16          // names in one look
	maxHolds  = 8           // leases in a waiter's record
)

// watch is the context of a call that waits while it holds leases. It ends with a deadlock too.
type watch struct {
	context.Context
	call   context.Context
	client *Client
	leases []*Lease
	me     driver.Waiter
	name   string
}

// Err looks at the clock if the Err of the call's context does.
func (w *watch) Err() error {
	_ = w.call.Err() // ends w.Context too if its lease has ended
	return w.Context.Err()
}

// acquireHolding is acquire for a caller that holds leases: those of its context, and call.Holding. It looks for
// deadlocks.
func (c *Client) acquireHolding(ctx context.Context, req *driver.Request, call Call, leases []*Lease) (*Lease, error) {
	holds := slices.Clip(call.Holding)
	for _, l := range slices.Backward(leases) {
		holds = append(holds, driver.Hold{Name: l.Name(), Lease: l.ID()})
	}
	req.Holds = holds[max(0, len(holds)-maxHolds):] // the last ones
	req.Lease = participant.NewID()                 // the id by which other calls find this one in the line
	if call.InDeadlock {
		return c.acquire(ctx, req, call)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	me := driver.Waiter{Holder: *c.config.Holder, Lease: req.Lease, Since: time.Now().Round(0), Why: req.Why, Shared: req.Shared, Slots: req.Slots, Holds: req.Holds}
	w := &watch{inner, ctx, c, leases, me, req.Name}
	timer := time.AfterFunc(lookAfter+c.Spread(lookAfter/10), func() {
		if inner.Err() == nil {
			c.Go(func(context.Context) { cancel(w.deadlock()) })
		}
	})
	defer timer.Stop()
	l, err := c.acquire(w, req, call)
	if dead := context.Cause(inner); errors.Is(dead, ErrDeadlock) && errors.Is(err, context.Canceled) {
		return l, dead
	}
	return l, err
}

// deadlock looks until it finds a cycle with this call, which it returns as an error, or
// until the call ends.
func (w *watch) deadlock() error {
	for pause := lookAfter; ; pause = min(2*pause, lookEvery) {
		before := w.sights()
		rank, dead := w.cycle(before, before)
		if dead != nil {
			// All calls of a cycle see it, but only one needs to give up. So they look again
			// one after the other, in the order of the leases that they hold. If two look
			// at the same time, both may give up.
			w.sleep(time.Duration(rank) * lookAfter)
			_, dead = w.cycle(before, w.sights())
		}
		if dead == nil {
			w.sleep(pause + w.client.Spread(pause/10))
		}
		switch err := w.Context.Err(); {
		case err != nil:
			return err
		case dead != nil:
			return dead
		}
	}
}

// sleep returns after d, or when the call has ended.
func (w *watch) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.Done():
	}
}

// sights inspects the names that the call holds, then the names that their waiters hold, and
// so on. It reaches the name that the call waits for, whose queue may be long, only if the
// call is in a cycle.
func (w *watch) sights() (infos []*driver.Info) {
	ctx, cancel := context.WithTimeout(w, participant.RequestTimeout)
	defer cancel()
	var names []string
	add := func(holds []driver.Hold) {
		for _, h := range holds {
			// Any client may have written the record of a waiter: expect any text.
			if len(names) < maxSights && !slices.Contains(names, h.Name) && driver.CheckName(h.Name) == nil {
				names = append(names, h.Name)
			}
		}
	}
	add(w.me.Holds)
	for i := 0; i < len(names); i++ {
		info, err := w.client.Inspect(ctx, names[i])
		if err != nil {
			continue
		}
		infos = append(infos, info)
		if names[i] == w.name { // the store may not show this call in its queue
			info.Waiters = append(info.Waiters, w.me)
			continue
		}
		for _, waiter := range info.Waiters {
			add(waiter.Holds)
		}
	}
	return infos
}

// cycle returns the deadlock of this call, or nil; see Config.Search.
func (w *watch) cycle(before, after []*driver.Info) (rank int, dead error) {
	// If one of the leases has ended, another call of this client may have its grant, under
	// the same id. Such a cycle is none.
	if slices.ContainsFunc(w.leases, func(l *Lease) bool { return l.Err() != nil }) {
		return 0, nil
	}
	return w.client.config.Search(before, after, w.me.Lease)
}

// Wait is a waiter and a lease that is in its way.
type Wait struct{ Name, Waiter, By string }

// Blocked is a Wait, what it is for the caller of Cycles, and the leases that the waiter holds.
type Blocked[T any] struct {
	Wait
	Of    T
	Holds []string
}

// Cycles returns cycles of the waits that are both in before and in after, so that each waiter that is in a cycle is in
// one of those returned.
func Cycles[T any](before, after []Blocked[T]) (cycles [][]T) {
	stood := make(map[Wait]bool)
	for _, b := range before {
		stood[b.Wait] = true
	}
	after = slices.DeleteFunc(slices.Clone(after), func(b Blocked[T]) bool { return !stood[b.Wait] })
	owners := make(map[string][]Blocked[T]) // by the leases that the waiters hold
	for _, b := range after {
		for _, lease := range b.Holds {
			owners[lease] = append(owners[lease], b)
		}
	}
	told := make(map[string]bool)
	for _, b := range after {
		if told[b.Waiter] {
			continue
		}
		var cycle []T
		for _, b := range closed([]Blocked[T]{b}, owners, make(map[Wait]bool)) {
			told[b.Waiter] = true
			cycle = append(cycle, b.Of)
		}
		if cycle != nil {
			cycles = append(cycles, cycle)
		}
	}
	return cycles
}

// closed extends path to a cycle, and returns it, or nil. It goes through each Blocked once.
func closed[T any](path []Blocked[T], owners map[string][]Blocked[T], seen map[Wait]bool) []Blocked[T] {
	for _, next := range owners[path[len(path)-1].By] {
		if next.Waiter == path[0].Waiter {
			return path
		}
		if seen[next.Wait] {
			continue
		}
		seen[next.Wait] = true
		if cycle := closed(append(path, next), owners, seen); cycle != nil {
			return cycle
		}
	}
	return nil
}
