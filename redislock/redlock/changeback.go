// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// abort closes the nodes for the old set, waits, and opens the old nodes. The wait is for leases of the new set: a quorum
// of the new nodes may have been open before some of them lost their data.
func (c *change) abort(ctx context.Context) error {
	if err := c.look(ctx); err != nil {
		return err
	}
	latest := c.now
	switch busy := c.underWay(latest.store); {
	case c.now.self == "" || latest.gen > c.now.gen && !c.is(latest.set, c.to, c.quor[1]):
		return fmt.Errorf("no change to these nodes is under way; the store's are %s", strings.Join(latest.addrs, ", "))
	case !busy:
		return errors.New("no change is under way")
	}
	after := entry{store: c.now.store, gen: max(latest.gen, c.now.gen+1) + 1, set: c.now.set, addrs: c.now.addrs}
	right := func(e entry) bool { return e.next.equal(c.now.set) }
	if latest.gen == c.now.gen && c.closedBefore(c.now) { // an earlier Abort has stopped half-way
		after.gen = c.now.gen
		right = func(e entry) bool { return e.gen < after.gen }
	} else if err := c.closeBack(ctx, latest); err != nil {
		return err
	}
	c.write(ctx, after, right)
	if n := c.opened(after); n < c.quor[0] {
		return fmt.Errorf("%w: %d of the old nodes are open again, and %d have to be: %s; run it again", driver.ErrUnavailable, n, c.quor[0], c.unheard(c.from))
	}
	c.Say("the store's nodes are " + strings.Join(after.addrs, ", ") + " as before")
	return nil
}

// underWay sets now to what the old nodes served before the change, and reports whether any node is closed.
func (c *change) underWay(store string) (busy bool) {
	now := entry{}
	for _, e := range c.seen {
		if e.founded() && e.store == store && c.is(e.set, c.from, c.quor[0]) && (e.gen > now.gen || now.self == "") {
			now = e
		}
		busy = busy || e.state == isClosed
	}
	c.now = now
	return busy
}

// closeBack closes nodes for the old set, and waits until all leases have ended. It closes so many nodes that no quorum of
// the new set can open, and every node that is open for the new set. If such a node stayed open, a client that reaches no
// other node would tell nodes that lose their data to serve the new set.
func (c *change) closeBack(ctx context.Context, latest entry) error {
	back := c.now.set
	if latest.gen > c.now.gen && c.opened(latest) >= latest.set.quorum {
		return errors.New("the new nodes are open already: to go back, change from the new ones to the old")
	}
	ahead := c.ahead()
	ours := func(set nodeSet) bool { return set.equal(back) || c.is(set, c.to, c.quor[1]) || c.Force }
	if err := c.another(ours); err != nil {
		return err
	}
	over := func(e entry) bool {
		if e.state == isOpen {
			return e.gen <= latest.gen
		}
		return !e.next.equal(back) && (e.gen < c.now.gen || e.gen == c.now.gen && ours(e.next))
	}
	before := c.mark(ctx, back, over)
	if err := c.another(ours); err != nil {
		return err
	}
	if err := c.told(ahead, before, before); err != nil {
		return err
	}
	if err := c.wait(ctx, "closed "+strings.Join(c.now.addrs, ", ")); err != nil {
		return err
	}
	return c.told(ahead, before, c.mark(ctx, back, over))
}

// told returns an error unless the nodes that were open for the new set have marks, and so many new nodes have the same mark before
// and after that no quorum of them can open.
func (c *change) told(ahead []string, before, after map[string]string) error {
	if c.Force {
		return nil
	}
	const force = "run it again. If a node will not come back, and nobody else is changing the nodes: --force"
	for _, a := range ahead {
		if after[a] == "" {
			return fmt.Errorf("%w: %s serves the new set, and has to know that the change is taken back: "+force, driver.ErrUnavailable, a)
		}
	}
	if need, n := len(c.to)-c.quor[1]+1, unchanged(c.to, before, after); n < need {
		return fmt.Errorf("%w: %d of the new nodes have to know that the change is taken back, and %d do: %s; "+force, driver.ErrUnavailable, need, n, c.unheard(c.to))
	}
	return nil
}

// ahead returns the addresses of the nodes that are open for the new set.
func (c *change) ahead() (addrs []string) {
	for a, e := range c.seen {
		if e.state == isOpen && e.store == c.now.store && !e.set.equal(c.now.set) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// closedBefore reports whether every closed node serves the set of now, in an earlier generation.
func (c *change) closedBefore(now entry) bool {
	for _, e := range c.seen {
		if e.state == isClosed && e.store == now.store && (e.gen >= now.gen || !e.set.equal(now.set)) {
			return false
		}
	}
	return true
}
