// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Clients with different sets of nodes exclude each other if each quorum of one set has
// a node in common with each quorum of the other. If two sets do not have this
// property, the change goes by way of a third that has it with both: all nodes of the
// two, with a quorum that is large enough. At any time the nodes accept one set, or two
// that have the property:
//
//	old → old, both → both → both, new → new
//
// Which generation follows one is decided before any node records it; see decide.go. So
// two changes at once do not go different ways.
//
// One node may take an arrow sooner than another, since the sets that are accepted
// before and after it have the property. The only exception is leases of clients with
// the old set when the new one is accepted. They end within MaxTTL after so many nodes
// no longer accept the old set that no quorum of it is left: renewals are refused too.

// A Step is what ChangeNodes has done.
type Step struct {
	Nodes  []string // the nodes that clients have to name from now on; all clients, before the next step
	Quorum int      // the quorum that clients have to use; 0 if it is more than half
	Last   bool     // there is no next step
	// Unheard are the nodes that were not reached. That does no harm: clients tell
	// those of the new set.
	Unheard []string
}

// ChangeNodes makes the next step of a change from the nodes at one URL to those at
// another, while the store is in use. For the whole change, call it, give all clients
// the nodes that it returns, in any order and at any time, and call it again with the
// same URLs, until Step.Last is true. The second call waits for MaxTTL. If a call was
// interrupted, repeat it. Clients that still have nodes of before the last step get
// driver.ErrDisagree, and lose their leases. One that begins with them after the last
// step is refused once it reaches a node that it should not have. Until then, as while
// the node that was replaced is down, it works with the others, and has fewer to spare.
//
// A node whose data is lost has to be named by the address by which it was first named.
// While another change is under way its error is ErrOtherChange. To undo a change, swap the URLs.
func ChangeNodes(ctx context.Context, from, to string, opts *Options) (*Step, error) {
	c, err := newChange(ctx, from, to, opts)
	if err != nil {
		return nil, fmt.Errorf("redlock: %w", err)
	}
	defer c.close()
	step, err := c.next(ctx)
	if err != nil {
		return nil, fmt.Errorf("redlock: %w", err)
	}
	return step, nil
}

// change is what is known of a change.
type change struct {
	all   []Node
	nodes map[string]*redisNode // of both sets, by id
	addrs map[string]string     // by id
	sets  map[string]epoch.Sets
	limit *epoch.Limit

	old, both, new epoch.Set
	now            epoch.Sets // of the latest generation
}

func newChange(ctx context.Context, from, to string, opts *Options) (*change, error) {
	oldOpts, old, err := parseURL(from, orDefault(opts))
	if err != nil {
		return nil, err
	}
	newOpts, next, err := parseURL(to, orDefault(opts))
	if err != nil {
		return nil, err
	}
	places := slices.Clone(old)
	for _, p := range next {
		if !slices.ContainsFunc(old, func(o *conn.Place) bool { return addrOf(o) == addrOf(p) }) {
			places = append(places, p)
		}
	}
	c := &change{nodes: make(map[string]*redisNode), addrs: make(map[string]string), sets: make(map[string]epoch.Sets),
		limit: epoch.NewLimit(oldOpts.MaxTTL, oldOpts.Holder)}
	conf := nodeConfig(oldOpts, c.limit)
	conf.Scripts = changeScripts
	all, err := dial(ctx, places, oldOpts, conf)
	if err != nil {
		return nil, err
	}
	ids, err := c.look(ctx, all)
	if err == nil {
		c.old, err = c.set(oldOpts.quorum(len(old)), old, ids)
	}
	if err == nil {
		c.new, err = c.set(newOpts.quorum(len(next)), next, ids)
	}
	c.all = all
	if err != nil {
		c.close()
		return nil, err
	}
	c.both = joint(c.old, c.new)
	return c, nil
}

// look asks all nodes for what they have recorded, and returns their ids by address.
func (c *change) look(ctx context.Context, all []Node) (ids map[string]string, err error) {
	ids = make(map[string]string)
	for _, n := range all {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		is, err := n.(*redisNode).server.State(ctx)
		cancel()
		id := n.Addr()
		if err == nil && is.Gen > 0 {
			id = is.Self
		}
		if c.nodes[id] != nil {
			return nil, fmt.Errorf("%s and %s are the same node (%s)", c.addrs[id], n.Addr(), id)
		}
		ids[n.Addr()] = id
		c.nodes[id], c.addrs[id], c.sets[id] = n.(*redisNode), n.Addr(), is.Sets
		if is.Gen > c.now.Gen {
			c.now = is.Sets
		}
	}
	if c.now.Gen == 0 {
		return nil, errors.New("no client has used these nodes yet, so none has to be changed: give them the new ones")
	}
	return ids, nil
}

func (c *change) set(quorum int, places []*conn.Place, ids map[string]string) (epoch.Set, error) {
	var named []string
	for _, p := range places {
		named = append(named, ids[addrOf(p)])
	}
	if quorum <= len(named)/2 || quorum > len(named) {
		return epoch.Set{}, fmt.Errorf("%d of %d nodes are no quorum", quorum, len(named))
	}
	return epoch.NewSet(quorum, named), nil
}

// joint returns the set of all nodes of which each quorum has more than half of the nodes of either
// set. So it goes together with both, and with the one of any other change from or to one of them:
// leases of its clients may live on when the next change begins.
func joint(a, b epoch.Set) epoch.Set {
	all := append(slices.Clone(a.IDs), b.Without(a)...)
	q := len(all)/2 + 1
	for _, s := range []epoch.Set{a, b} {
		q = max(q, len(all)-len(s.IDs)+len(s.IDs)/2+1)
	}
	return epoch.NewSet(q, all)
}

// next makes the step that follows what the nodes accept now.
func (c *change) next(ctx context.Context) (*Step, error) {
	if c.old.String() == c.new.String() {
		return nil, errors.New("the two sets of nodes are the same")
	}
	// What follows the set in between depends on where the change came from: leases of clients with
	// From may not have ended.
	from := c.now.From.String()
	between := c.now.From.IDs != nil
	switch {
	case !between && c.accepts(c.old):
		return c.step(ctx, c.both, c.old, c.both)
	case c.accepts(c.old, c.both):
		if err := c.record(ctx, halts(c.old), epoch.Sets{OK: []epoch.Set{c.both}, From: c.old}); err != nil {
			return nil, err
		}
		return c.wait(ctx)
	case between && c.accepts(c.both) && from == c.old.String():
		return c.wait(ctx)
	case between && c.accepts(c.both) && from == c.new.String(): // the way back, which nobody has left
		return c.step(ctx, c.new, c.both, c.new)
	case c.accepts(c.both, c.new):
		if err := c.record(ctx, c.blocks(c.both), epoch.Sets{OK: []epoch.Set{c.new}}); err != nil {
			return nil, err
		}
		return c.done(c.new, true), nil
	case !between && c.accepts(c.new):
		if err := c.tell(ctx, c.blocks(c.both)); err != nil {
			return nil, err
		}
		return c.done(c.new, true), nil
	}
	return nil, fmt.Errorf("%w: the nodes accept %v, which is not on the way from %v to %v: end that one first, or undo it; see docs/redlock-nodes.md",
		ErrOtherChange, c.now.OK, c.old, c.new)
}

// wait accepts the new set when no lease of the old one is left.
func (c *change) wait(ctx context.Context) (*Step, error) {
	if err := c.tell(ctx, halts(c.old)); err != nil { // again, as that may have been interrupted
		return nil, err
	}
	if err := c.pause(ctx); err != nil {
		return nil, err
	}
	return c.step(ctx, c.new, c.both, c.new)
}

// accepts reports whether the nodes accept these sets. Their order is another on the way back.
func (c *change) accepts(sets ...epoch.Set) bool {
	byText := func(a, b epoch.Set) int { return cmp.Compare(a.String(), b.String()) }
	return slices.EqualFunc(slices.SortedFunc(slices.Values(c.now.OK), byText), slices.SortedFunc(slices.Values(sets), byText),
		func(a, b epoch.Set) bool { return a.String() == b.String() })
}

// step makes the nodes accept these sets; clients has to be the first.
func (c *change) step(ctx context.Context, clients epoch.Set, sets ...epoch.Set) (*Step, error) {
	if err := c.record(ctx, quorumOf(clients), epoch.Sets{OK: sets}); err != nil {
		return nil, err
	}
	return c.done(clients, false), nil
}

func (c *change) done(clients epoch.Set, last bool) *Step {
	s := &Step{Last: last}
	for _, id := range clients.IDs {
		s.Nodes = append(s.Nodes, c.addrs[id])
	}
	if n := len(clients.IDs); clients.Quorum != n/2+1 || n%2 == 0 {
		s.Quorum = clients.Quorum
	}
	for id, is := range c.sets {
		if is.Gen != c.now.Gen {
			s.Unheard = append(s.Unheard, c.addrs[id])
		}
	}
	slices.Sort(s.Unheard)
	return s
}

// enough is how many of some nodes have to know something.
type enough struct {
	n  int
	of []string
}

func quorumOf(s epoch.Set) enough { return enough{s.Quorum, s.IDs} }

// blocks returns how many nodes have to refuse a set, so that no quorum of it is left.
func (c *change) blocks(s epoch.Set) enough { return enough{len(s.IDs) - s.Quorum + 1, s.IDs} }

// halts returns how many nodes have to refuse a set so that no half of it is left: no quorum either of
// the set in between of a change before, whose last step too few nodes may have heard of.
func halts(s epoch.Set) enough { return enough{len(s.IDs) - len(s.IDs)/2, s.IDs} }

// record begins the generation that follows.
func (c *change) record(ctx context.Context, e enough, next epoch.Sets) error {
	for i, a := range next.OK {
		for _, b := range next.OK[:i] {
			if !a.Meets(b) {
				return fmt.Errorf("%v and %v do not go together", a, b)
			}
		}
	}
	next.Gen = c.now.Gen + 1
	if err := c.decide(ctx, next); err != nil {
		return err
	}
	c.now = next
	return c.tell(ctx, e)
}

// tell sends the accepted sets to all nodes, and returns an error unless enough nodes
// have them.
func (c *change) tell(ctx context.Context, e enough) error {
	know := 0
	var failed []string
	for id, n := range c.nodes {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		sets := c.now
		sets.Self = id
		err := n.server.Record(ctx, sets)
		cancel()
		switch {
		case err != nil:
			failed = append(failed, fmt.Sprintf("%s: %v", c.addrs[id], err))
		default:
			c.sets[id] = sets
			if slices.Contains(e.of, id) {
				know++
			}
		}
	}
	slices.Sort(failed)
	if know < e.n {
		return fmt.Errorf("%w: %d of the nodes %s have to know it, and %d do; try again: %s",
			driver.ErrUnavailable, e.n, strings.Join(e.of, ", "), know, strings.Join(failed, "; "))
	}
	return nil
}

// pause waits until no lease of the old set is left.
func (c *change) pause(ctx context.Context) error {
	ttl := c.limit.Longest()
	select {
	case <-time.After(ttl + driver.Drift(ttl)):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leases of clients with the old nodes may last for %v: %w", ttl, ctx.Err())
	}
}

func (c *change) close() {
	for _, n := range c.all {
		n.Close()
	}
}
