// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

const (
	lookAfter = time.Second // a call has waited for, before it looks for a deadlock
	lookEvery = time.Minute // at most; it asks again after 1, 2, 4, … seconds
	maxSights = 16          // names in a look
	maxHolds  = 8           // leases in a waiter's record
)

// watch is the context of a call that waits while it holds leases. It ends with a deadlock too.
type watch struct {
	context.Context
	call   context.Context
	client *Client
	leases []*Lease
	me     Waiter
	name   string
}

// acquireUnder is acquire of a caller that may hold other leases. It looks for deadlocks then.
func (c *Client) acquireUnder(ctx context.Context, req *driver.Request, set settings) (*Lease, error) {
	leases := LeasesFrom(ctx)
	if len(leases) == 0 && len(set.holding) == 0 {
		return c.acquire(ctx, req, set)
	}
	holds := slices.Clip(set.holding)
	for _, l := range slices.Backward(leases) {
		holds = append(holds, driver.Hold{Name: l.grant.name, Lease: l.grant.id})
	}
	req.Holds = holds[max(0, len(holds)-maxHolds):] // without the first ones
	req.Lease = participant.NewID()                 // by which other calls find this one in the line
	if set.inDeadlock {
		return c.acquire(ctx, req, set)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	me := Waiter{Holder: *c.holder, Lease: req.Lease, Since: time.Now().Round(0), Why: req.Why, Shared: req.Shared, Slots: req.Slots, Holds: req.Holds}
	w := &watch{inner, ctx, c, leases, me, req.Name}
	timer := time.AfterFunc(lookAfter+c.random.spread(lookAfter/10), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if inner.Err() == nil && !c.closed {
			c.background.Go(func() { cancel(w.deadlock()) })
		}
	})
	defer timer.Stop()
	l, err := c.acquire(w, req, set)
	if dead := new(DeadlockError); errors.As(context.Cause(inner), &dead) && errors.Is(err, error(dead)) {
		return l, dead
	}
	return l, err
}

// Err is that of the call's context, which may look at the clock.
func (w *watch) Err() error {
	_ = w.call.Err() // which ends this one too
	return w.Context.Err()
}

// deadlock looks until it sees a cycle that the call is in, and returns it as an error, or
// until the call ends.
func (w *watch) deadlock() error {
	for pause := lookAfter; ; pause = min(2*pause, lookEvery) {
		before := w.sights()
		if cycle := w.cycle(before, before); cycle != nil {
			// All calls of a cycle see it, and one is enough to give up. They look again one
			// after the other, in the order of the leases that they hold. Two whose looks
			// meet may both give up.
			rank, mine := 0, cycle[len(cycle)-1].By.Lease
			for _, b := range cycle {
				if b.By.Lease > mine {
					rank++
				}
			}
			w.sleep(time.Duration(rank) * lookAfter)
			if cycle = w.cycle(before, w.sights()); cycle != nil && w.Context.Err() == nil {
				return &DeadlockError{cycle}
			}
		}
		if !w.sleep(pause + w.client.random.spread(pause/10)) {
			return w.Context.Err()
		}
	}
}

// sleep returns false if the call has ended.
func (w *watch) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-w.Done():
		return false
	}
}

// sights looks at the names that the call holds, at those that their waiters hold, and so on.
// The name that the call waits for, whose queue may be long, is among them only if the
// call is in a cycle.
func (w *watch) sights() (infos []*Info) {
	ctx, cancel := context.WithTimeout(w, requestTimeout)
	defer cancel()
	var names []string
	add := func(holds []driver.Hold) {
		for _, h := range holds {
			if len(names) < maxSights && !slices.Contains(names, h.Name) {
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
		if names[i] == w.name { // the store may not show us in its queue
			info.Waiters = append(info.Waiters, w.me)
			continue
		}
		for _, waiter := range info.Waiters {
			add(waiter.Holds)
		}
	}
	return infos
}

// cycle returns the cycle that the call is in, from the call on, or nil.
func (w *watch) cycle(before, after []*Info) []Blocked {
	// With a context that was cut loose, the call may wait on when a lease has ended. Another
	// call of the client may have its grant by now, under the same id.
	if slices.ContainsFunc(w.leases, func(l *Lease) bool { return l.Err() != nil }) {
		return nil
	}
	for _, cycle := range Deadlocks(before, after) {
		if i := slices.IndexFunc(cycle, func(b Blocked) bool { return b.Waiter.Lease == w.me.Lease }); i >= 0 {
			return slices.Concat(cycle[i:], cycle[:i])
		}
	}
	return nil
}
