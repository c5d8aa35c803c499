// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func (c *change) run(ctx context.Context) error {
	var err error
	for range 5 {
		var again bool
		if again, err = c.once(ctx); !again {
			return err
		}
		c.Say("nodes have lost their data in the meantime, and with it that they are closed: the wait begins anew")
	}
	return err
}

// once makes the change. again says that all nodes answer, but that nodes have lost records that the change needs.
func (c *change) once(ctx context.Context) (again bool, err error) {
	if err := c.look(ctx); err != nil {
		return false, err
	}
	if err := c.prepare(ctx); err != nil {
		return false, err
	}
	if c.isAll(c.next, c.from, c.quor[0]) {
		return false, errors.New("the old and the new nodes are the same")
	}
	if c.now.set.equal(c.next) { // an earlier run has opened some of the new nodes, or all
		if c.opened(c.now) >= c.next.quorum {
			return false, c.open(ctx)
		}
		if err := c.before(); err != nil {
			return false, err
		}
	}
	if err := c.check(); err != nil {
		return false, err
	}
	if again, err := c.drain(ctx); err != nil || again {
		return again, err
	}
	err = c.open(ctx)
	return err != nil && !errors.Is(err, ErrOtherChange) && len(c.errs) == 0, err
}

// before sets now to what the old nodes served before nodes opened for the next generation.
func (c *change) before() error {
	var old entry
	for _, e := range c.seen {
		if e.founded() && e.store == c.now.store && e.gen < c.now.gen && e.gen > old.gen && c.is(e.set, c.from, c.quor[0]) {
			old = e
		}
	}
	if old.self == "" {
		return fmt.Errorf("%w: none of the old nodes says what it served: %s", driver.ErrUnavailable, c.unheard(c.from))
	}
	c.now = old
	return nil
}

// check returns an error unless the store has the nodes of From, and no other change is under way.
func (c *change) check() error {
	if !c.is(c.now.set, c.from, c.quor[0]) {
		return fmt.Errorf("the store's nodes are %s, with a quorum of %d: name these as the old ones", strings.Join(c.now.addrs, ", "), c.now.set.quorum)
	}
	return c.another(c.next.equal)
}

// another returns an error if a node is closed for another change: for a set that is not ours, or in a later generation, by a change
// that began after ours was done.
func (c *change) another(ours func(nodeSet) bool) error {
	for a, e := range c.seen {
		if e.state == isClosed && e.store == c.now.store && (e.gen > c.now.gen || e.gen == c.now.gen && !ours(e.next)) {
			return c.other(a, e)
		}
	}
	return nil
}

func (c *change) other(addr string, e entry) error {
	return fmt.Errorf("%w: %s is closed for %s, by %s: end that one first, or take it back: pawl nodes change --abort",
		ErrOtherChange, addr, strings.Join(e.addrN, ", "), e.by)
}

// mark closes the nodes for the set next, and returns the marks of this change by address. It replaces the entry of a node
// in the store only if over allows it.
func (c *change) mark(ctx context.Context, next nodeSet, over func(entry) bool) map[string]string {
	addrN := c.addrsOf(next)
	c.each(ctx, func(ctx context.Context, addr string, n *redisNode) (entry, error) {
		id := c.idOf(addr)
		is, err := n.record(ctx, "", entry{}, 0)
		switch {
		case err != nil, id == "":
			return is, err
		case is.founded() && (is.store != c.now.store || !over(is)):
		default:
			e := c.now.as(id)
			e.state, e.mark, e.next, e.addrN, e.by = isClosed, strings.ToLower(rand.Text()[:10]), next, addrN, c.by
			if is, err = c.put(ctx, n, is, e); err != nil {
				return is, err
			}
		}
		_, err = n.server.State(ctx, []string{n.server.EpochKey()}, true) // a client may have raised MaxTTL before the node was closed
		return is, err
	})
	return c.marks(next)
}

// marks returns the marks of the nodes that are closed for the set next, by address.
func (c *change) marks(next nodeSet) map[string]string {
	marks := make(map[string]string)
	for a, e := range c.seen {
		if e.state == isClosed && e.store == c.now.store && e.gen == c.now.gen && e.next.equal(next) {
			marks[a] = e.mark
		}
		if e.state == isOpen && e.store == c.now.store && e.gen > c.now.gen && e.set.equal(next) {
			marks[a] = "open" // for the new set, and so closed for the old one
		}
	}
	return marks
}

// unchanged returns how many nodes at addrs have the same mark in before and in after.
func unchanged(addrs []string, before, after map[string]string) (n int) {
	for _, a := range addrs {
		if before[a] != "" && before[a] == after[a] {
			n++
		}
	}
	return n
}

// drain closes the nodes, and waits until all leases have ended. again says that too few of the old nodes have stayed closed.
func (c *change) drain(ctx context.Context) (again bool, err error) {
	over := func(e entry) bool { return e.gen < c.now.gen || e.gen == c.now.gen && e.state == isOpen }
	before := c.mark(ctx, c.next, over)
	if err := c.closed(before); err != nil {
		return false, err
	}
	if err := c.wait(ctx, "closed "+strings.Join(c.now.addrs, ", ")); err != nil {
		return false, err
	}
	after := c.mark(ctx, c.next, over)
	for _, e := range c.seen {
		if e.founded() && e.store == c.now.store && e.gen > c.now.gen && !e.set.equal(c.next) {
			return false, fmt.Errorf("%w: the nodes are %s meanwhile: this change was taken back, perhaps", ErrOtherChange, strings.Join(e.addrs, ", "))
		}
	}
	return unchanged(c.from, before, after) < c.quor[0], nil
}

// wait returns when all leases have ended.
func (c *change) wait(ctx context.Context, why string) error {
	ttl := c.limit.Longest()
	ttl += driver.Drift(ttl)
	c.Say(fmt.Sprintf("%s; nothing is granted or renewed for %v", why, driver.ForPeople(ttl)))
	select {
	case <-time.After(ttl):
	case <-ctx.Done():
		return fmt.Errorf("leases may last for %v: %w; run it again, or take it back with --abort", ttl, ctx.Err())
	}
	return nil
}

// closed returns an error unless all new nodes and a quorum of the old ones have marks of this change. A mark of another change is an error, too.
func (c *change) closed(marks map[string]string) error {
	if err := c.another(c.next.equal); err != nil {
		return err
	}
	if n := unchanged(c.to, marks, marks); n < len(c.to) {
		return fmt.Errorf("%w: %d of the %d new nodes are closed, and all have to be: %s; run it again, or take it back with --abort", driver.ErrUnavailable, n, len(c.to), c.unheard(c.to))
	}
	if n := unchanged(c.from, marks, marks); n < c.quor[0] {
		return fmt.Errorf("%w: %d of the %d old nodes are closed, and %d have to be: %s; run it again, or take it back with --abort", driver.ErrUnavailable, n, len(c.from), c.quor[0], c.unheard(c.from))
	}
	return nil
}

// open writes the next generation at all nodes that are closed for it.
func (c *change) open(ctx context.Context) error {
	next := entry{store: c.now.store, gen: c.now.gen + 1, set: c.next, addrs: c.addrsOf(c.next)}
	right := func(e entry) bool { return e.state == isClosed && e.next.equal(c.next) }
	if c.now.set.equal(c.next) {
		next.gen = c.now.gen
		if c.opened(next) >= c.next.quorum { // so Abort can no longer succeed
			right = func(e entry) bool { return e.gen < next.gen }
		}
	}
	c.write(ctx, next, right)
	if n := c.opened(next); n < len(c.to) {
		for a, e := range c.seen {
			if e.founded() && e.store == next.store && e.gen > next.gen {
				return fmt.Errorf("%w: %s serves %s meanwhile: this change was taken back, perhaps", ErrOtherChange, a, strings.Join(e.addrs, ", "))
			}
			if e.state == isClosed && e.store == next.store && !right(e) {
				return c.other(a, e)
			}
		}
		return fmt.Errorf("%w: %d of the %d new nodes serve the new set: %s; run it again", driver.ErrUnavailable, n, len(c.to), c.unheard(c.to))
	}
	c.Say("the store's nodes are " + strings.Join(next.addrs, ", "))
	return nil
}

// opened returns how many nodes are open for the set and the generation of next.
func (c *change) opened(next entry) (n int) {
	for _, e := range c.seen {
		if e.state == isOpen && e.gen == next.gen && e.set.equal(next.set) && next.set.has(e.self) {
			n++
		}
	}
	return n
}

// write records next at each node that has an earlier generation, or belongs to no store. It replaces the entry of a closed
// node only if right allows it.
func (c *change) write(ctx context.Context, next entry, right func(entry) bool) {
	c.each(ctx, func(ctx context.Context, addr string, n *redisNode) (entry, error) {
		was, id := c.seen[addr], c.idOf(addr)
		ok := was.state == isOpen && was.store == next.store || was.state == isClosed && right(was) || !was.founded()
		if id == "" || !ok || was.gen >= next.gen {
			return n.record(ctx, "", entry{}, 0)
		}
		return c.put(ctx, n, was, next.as(id))
	})
}
