// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// DeadlockError is ErrDeadlock with the circle of waiters.
type DeadlockError struct {
	// Circle begins with the caller. Each waits for a lease of the next, and the last for
	// a lease that the caller holds.
	Circle []Blocked
}

// Blocked is a waiter in a circle of waiters.
type Blocked struct {
	Waiter Waiter
	Name   string // what it waits for
	By     Held   // the lease on Name that is in its way
}

func (e *DeadlockError) Error() string {
	switch len(e.Circle) {
	case 0:
		return ErrDeadlock.Error()
	case 1:
		return fmt.Sprintf("%v: this caller holds %q itself", ErrDeadlock, driver.Shorten(e.Circle[0].Name))
	}
	var others []string
	for i, b := range e.Circle[1:] {
		others = append(others, fmt.Sprintf("%v holds %q and waits for %q", b.Waiter.Holder, driver.Shorten(e.Circle[i].Name), driver.Shorten(b.Name)))
	}
	return fmt.Sprintf("%v: %s, which this caller holds", ErrDeadlock, strings.Join(others, "; "))
}

// Is makes errors.Is(err, ErrDeadlock) true.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// Deadlocks returns the circles in which waiters of infos wait for each other: each for a
// lease of the next, the last for a lease of the first. infos are what List returns; the
// circles are as certain as that is new. A waiter is in one of them at most.
//
// It sees waiters that say what they hold (see Waiter.Holds), and reports what is certain: a
// waiter for one of several slots waits for any of their holders, so it is in no circle
// because of them.
func Deadlocks(infos []*Info) [][]Blocked {
	g := make(graph)
	for _, info := range infos {
		g.add(info)
	}
	var all [][]Blocked
	told := make(map[*Waiter]bool)
	for _, info := range infos {
		for i := range info.Waiters {
			w := &info.Waiters[i]
			if told[w] {
				continue
			}
			circle := g.circle(node{w, info})
			if circle == nil {
				continue
			}
			for _, e := range circle {
				told[e.waiter] = true
			}
			all = append(all, blocked(circle))
		}
	}
	return all
}

// node is a waiter for the name of info.
type node struct {
	waiter *Waiter
	info   *Info
}

// edge is a waiter, and a lease that is in its way.
type edge struct {
	node
	by *Held
}

// graph has the waiters by the ids of the leases that they hold.
type graph map[string][]node

func (g graph) add(info *Info) {
	for i := range info.Waiters {
		w := &info.Waiters[i]
		for _, h := range w.Holds {
			g[h.Lease] = append(g[h.Lease], node{w, info})
		}
	}
}

// circle returns the shortest way from a waiter to a lease of its own, or nil.
func (g graph) circle(first node) []edge {
	if len(first.waiter.Holds) == 0 {
		return nil
	}
	type way struct {
		node
		to     *way // the waiter before
		behind *Held
	}
	seen := map[*Waiter]bool{first.waiter: true}
	for queue := []*way{{node: first}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for i := range at.info.Holders {
			h := &at.info.Holders[i]
			if !inTheWay(h, at.waiter) {
				continue
			}
			if holds(first.waiter, h.Lease) {
				var circle []edge
				for w, by := at, h; w != nil; w, by = w.to, w.behind {
					circle = append(circle, edge{w.node, by})
				}
				slices.Reverse(circle)
				return circle
			}
			for _, n := range g[h.Lease] {
				if !seen[n.waiter] {
					seen[n.waiter] = true
					queue = append(queue, &way{n, at, h})
				}
			}
		}
	}
	return nil
}

func holds(w *Waiter, lease string) bool {
	return slices.ContainsFunc(w.Holds, func(h driver.Hold) bool { return h.Lease == lease })
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

func blocked(circle []edge) []Blocked {
	all := make([]Blocked, len(circle))
	for i, e := range circle {
		all[i] = Blocked{*e.waiter, e.info.Name, *e.by}
	}
	return all
}

// stands reports whether e is still there in what was seen later. One attempt is in the queue
// once, and a lease on the name once: if both were there before and are there now, they
// were there all the time between. own is the edge of the caller itself, which knows that it
// waits.
func (e edge) stands(later *Info, own bool) bool {
	return slices.ContainsFunc(later.Holders, func(h Held) bool { return h.Lease == e.by.Lease && inTheWay(&h, e.waiter) }) &&
		(own || e.waiter.Lease != "" && slices.ContainsFunc(later.Waiters, func(w Waiter) bool { return w.Lease == e.waiter.Lease }))
}
