// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// DeadlockError is ErrDeadlock with the cycle of waiters.
type DeadlockError struct {
	// Cycle begins with the caller. Each waits for a lease of the next, and the last for
	// a lease that the caller holds.
	Cycle []Blocked
}

// Blocked is a waiter and a lease that is in its way.
type Blocked struct {
	Waiter Waiter // who waits
	Name   string // what it waits for
	By     Held   // the lease on Name
}

// Error names the waiters of the cycle and what each of them holds.
func (e *DeadlockError) Error() string {
	text, held := ErrDeadlock.Error()+": ", ""
	for i, b := range e.Cycle {
		if i > 0 {
			text += fmt.Sprintf("%v holds %q and waits for %q; ", b.Waiter.Holder, held, driver.Shorten(b.Name))
		}
		held = driver.Shorten(b.Name)
	}
	return fmt.Sprintf("%sthe caller holds %q", text, held)
}

// Is makes errors.Is(err, ErrDeadlock) true.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// Deadlocks returns the cycles of waiters in two answers of List, or of Inspect for several names.
// In a cycle each waiter waits for a lease of the next, and the last for a lease of the first.
// Each waiter that is in a cycle is in one of the cycles returned.
//
// An answer does not show all names at the same instant, so a cycle in one answer may never have
// existed. A cycle in both existed when the first answer was complete. Deadlocks(infos, infos)
// returns the cycles that a second answer has to confirm.
//
// Deadlocks reports only certain cycles, by Waiter.Holds. It takes no waiter for one of several
// slots as blocked, because any holder may leave first.
func Deadlocks(before, after []*Info) (cycles [][]Blocked) {
	stood := make(map[[3]string]bool)
	for _, b := range blocked(before) {
		stood[b.key()] = true
	}
	var all []Blocked
	owners := make(map[string][]Blocked) // by the leases that the waiters hold
	for _, b := range blocked(after) {
		if !stood[b.key()] {
			continue
		}
		all = append(all, b)
		for _, h := range b.Waiter.Holds {
			owners[h.Lease] = append(owners[h.Lease], b)
		}
	}
	told := make(map[string]bool)
	for _, b := range all {
		if told[b.Waiter.Lease] {
			continue
		}
		if cycle := closed([]Blocked{b}, owners, make(map[[3]string]bool)); cycle != nil {
			for _, b := range cycle {
				told[b.Waiter.Lease] = true
			}
			cycles = append(cycles, cycle)
		}
	}
	return cycles
}

// closed extends path to a cycle, and returns it, or nil. It goes through each Blocked once.
func closed(path []Blocked, owners map[string][]Blocked, seen map[[3]string]bool) []Blocked {
	for _, next := range owners[path[len(path)-1].By.Lease] {
		if next.Waiter.Lease == path[0].Waiter.Lease {
			return path
		}
		if seen[next.key()] {
			continue
		}
		seen[next.key()] = true
		if cycle := closed(append(path, next), owners, seen); cycle != nil {
			return cycle
		}
	}
	return nil
}

func (b *Blocked) key() [3]string { return [3]string{b.Name, b.Waiter.Lease, b.By.Lease} }

// blocked returns the waiters that hold leases, each with every lease that is certainly in its way. A reader
// behind a writer may wait while readers hold the name; then the writer is in its way, not the readers.
func blocked(infos []*Info) (all []Blocked) {
	for _, info := range infos {
		for _, w := range info.Waiters {
			for _, h := range info.Holders {
				free := w.Shared && h.Shared || w.Slots > 1 && h.Slots > 0
				if w.Lease != "" && len(w.Holds) > 0 && !free {
					all = append(all, Blocked{w, info.Name, h})
				}
			}
		}
	}
	return all
}

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
	me     Waiter
	name   string
}

// Err looks at the clock if the Err of the call's context does.
func (w *watch) Err() error {
	_ = w.call.Err() // ends w.Context too if its lease has ended
	return w.Context.Err()
}

// acquireHolding is acquire for a caller that holds leases: those of its context, and those of Holding. It looks for
// deadlocks.
func (c *Client) acquireHolding(ctx context.Context, req *driver.Request, set settings, leases []*Lease) (*Lease, error) {
	holds := slices.Clip(set.holding)
	for _, l := range slices.Backward(leases) {
		holds = append(holds, driver.Hold{Name: l.Name(), Lease: l.ID()})
	}
	req.Holds = holds[max(0, len(holds)-maxHolds):] // the last ones
	req.Lease = participant.NewID()                 // the id by which other calls find this one in the line
	if set.inDeadlock {
		return c.acquire(ctx, req, set)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	me := Waiter{Holder: Holder(*c.holder), Lease: req.Lease, Since: time.Now().Round(0), Why: req.Why, Shared: req.Shared, Slots: req.Slots, Holds: holdsOf(req.Holds)}
	w := &watch{inner, ctx, c, leases, me, req.Name}
	timer := time.AfterFunc(lookAfter+c.core.Spread(lookAfter/10), func() {
		if inner.Err() == nil {
			c.core.Go(func(context.Context) { cancel(w.deadlock()) })
		}
	})
	defer timer.Stop()
	l, err := c.acquire(w, req, set)
	if dead := new(DeadlockError); errors.As(context.Cause(inner), &dead) && errors.Is(err, error(dead)) {
		return l, dead
	}
	return l, err
}

// deadlock looks until it finds a cycle with this call, which it returns as an error, or
// until the call ends.
func (w *watch) deadlock() error {
	for pause := lookAfter; ; pause = min(2*pause, lookEvery) {
		before := w.sights()
		cycle := w.cycle(before, before)
		if cycle != nil {
			// All calls of a cycle see it, but only one needs to give up. So they look again
			// one after the other, in the order of the leases that they hold. If two look
			// at the same time, both may give up.
			rank := 0
			for _, b := range cycle {
				if b.By.Lease > cycle[len(cycle)-1].By.Lease {
					rank++
				}
			}
			w.sleep(time.Duration(rank) * lookAfter)
			cycle = w.cycle(before, w.sights())
		}
		if cycle == nil {
			w.sleep(pause + w.client.core.Spread(pause/10))
		}
		switch err := w.Context.Err(); {
		case err != nil:
			return err
		case cycle != nil:
			return &DeadlockError{cycle}
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
func (w *watch) sights() (infos []*Info) {
	ctx, cancel := context.WithTimeout(w, participant.RequestTimeout)
	defer cancel()
	var names []string
	add := func(holds []Hold) {
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

// cycle returns the cycle of this call, which comes first in it, or nil.
func (w *watch) cycle(before, after []*Info) []Blocked {
	// If one of the leases has ended, another call of this client may have its grant, under
	// the same id. Such a cycle is none.
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
