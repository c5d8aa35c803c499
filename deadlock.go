// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"fmt"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

// DeadlockError is ErrDeadlock with the cycle of waiters.
type DeadlockError struct {
	// Cycle begins with the caller. Each waits for a lease of the next, and the last for
	// a lease that the caller holds.
	Cycle []Blocked
}

// Blocked is a waiter in a cycle of waiters.
type Blocked struct {
	Waiter Waiter
	Name   string // what it waits for
	By     Held   // the lease on Name that is in its way
}

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

// Deadlocks returns cycles in which waiters wait for each other: each for a lease of the
// next, the last for a lease of the first. Every waiter that is in a cycle is in one of them.
//
// before and after are two answers of List, or of Inspect for several names. The names of an
// answer are not read at the same time, so a cycle in one answer alone may never have
// existed. What is in both was there when the first was complete. Deadlocks(infos, infos)
// returns the cycles that have to be looked at again.
//
// Deadlocks uses Waiter.Holds, and reports what is certain: a waiter for one of several slots
// waits for any of their holders, so it is in no cycle because of them.
func Deadlocks(before, after []*Info) (cycles [][]Blocked) {
	g, waiters := graphOf(before, after)
	told := make(map[string]bool)
	for _, first := range waiters {
		if told[first] {
			continue
		}
		if cycle := g.cycle(first, first, make(map[string]bool)); cycle != nil {
			for _, b := range cycle {
				told[b.Waiter.Lease] = true
			}
			cycles = append(cycles, cycle)
		}
	}
	return cycles
}

// waitGraph has waiters by the ids of their attempts.
type waitGraph struct {
	waits map[string][]*Blocked // what is in the way of a waiter
	held  map[string][]string   // the waiters that hold a lease
}

// graphOf returns what is in both answers, and the waiters that hold leases in order.
func graphOf(before, after []*Info) (g waitGraph, waiters []string) {
	stood := make(map[[2]string]bool)
	for _, info := range before {
		if len(info.Waiters) == 0 {
			continue
		}
		for _, w := range info.Waiters {
			stood[[2]string{info.Name, "waiter " + w.Lease}] = true
		}
		for _, h := range info.Holders {
			stood[[2]string{info.Name, "holder " + h.Lease}] = true
		}
	}
	g = waitGraph{make(map[string][]*Blocked), make(map[string][]string)}
	for _, info := range after {
		for _, w := range info.Waiters {
			if w.Lease == "" || len(w.Holds) == 0 || !stood[[2]string{info.Name, "waiter " + w.Lease}] {
				continue
			}
			for _, h := range info.Holders {
				if inTheWay(&h, &w) && stood[[2]string{info.Name, "holder " + h.Lease}] {
					g.waits[w.Lease] = append(g.waits[w.Lease], &Blocked{w, info.Name, h})
				}
			}
			for _, h := range w.Holds {
				g.held[h.Lease] = append(g.held[h.Lease], w.Lease)
			}
			waiters = append(waiters, w.Lease)
		}
	}
	return g, waiters
}

// cycle returns a way from the waiter at to a lease that first holds, or nil. It avoids the
// waiters that it has seen.
func (g waitGraph) cycle(first, at string, seen map[string]bool) []Blocked {
	for _, b := range g.waits[at] {
		if slices.Contains(g.held[b.By.Lease], first) {
			return []Blocked{*b}
		}
		for _, next := range g.held[b.By.Lease] {
			if seen[next] {
				continue
			}
			seen[next] = true
			if rest := g.cycle(first, next, seen); rest != nil {
				return append([]Blocked{*b}, rest...)
			}
		}
	}
	return nil
}

// inTheWay reports whether a waiter for a name certainly waits until the lease h on it has
// ended. A reader waits for readers at times, behind a writer; that depends on the writer.
func inTheWay(h *Held, w *Waiter) bool {
	switch {
	case w.Shared:
		return !h.Shared
	case w.Slots > 1:
		return h.Slots == 0
	}
	return true
}
