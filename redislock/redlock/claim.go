// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// claim is what one lease id may have at the nodes: an attempt, and the grant that it
// may become.
type claim struct {
	d      *store
	name   string
	lease  string
	record string
	shared bool

	mu     sync.Mutex
	held   bool    // it was granted
	queued bool    // it may be in the queue of nodes
	nodes  []trace // by the index of the node
	ttl    time.Duration
	over   bool // end was called
}

// trace is what a claim may have left at a node.
type trace struct {
	left    bool // the claim may have the lock there, or a place in the queue
	pending int  // proposals that have not been answered
	unknown bool // one was never answered

	quiet chan struct{} // closed when pending is 0 again; nil if nobody waits for that
}

func (d *store) claim(name, lease, record string) *claim {
	return &claim{d: d, name: name, lease: lease, record: record, nodes: make([]trace, len(d.members))}
}

// answer is the outcome of one proposal.
type answer struct {
	node int
	vote nodewire.Vote
	err  error
}

// propose sends a proposal to all nodes at once, which matters to a lease that lasts for within. The channel gets one answer from each,
// or an error. It returns nil if the claim was ended: endings that were sent bar only
// the proposals that were under way by then.
func (c *claim) propose(mode nodewire.Mode, token uint64, ttl, within time.Duration) <-chan answer {
	p := nodewire.Proposal{Mode: mode, Name: c.name, Lease: c.lease, Token: token, TTL: ttl, Record: c.record}
	answers := make(chan answer, len(c.d.members))
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return nil
	}
	c.ttl = max(c.ttl, ttl)
	p.Shared, p.Queued = c.shared, c.queued
	for i := range c.nodes {
		c.nodes[i].pending++
	}
	c.mu.Unlock()
	all := c.d.together(len(c.d.members), within, mode != nodewire.Take)
	for i, m := range c.d.members {
		send(m, all, func(ctx context.Context) (v nodewire.Vote, err error) {
			defer m.timed(driver.Now(), &err)
			return m.Propose(ctx, p)
		}, func(v nodewire.Vote, err error) {
			c.answered(i, v.Has, err)
			answers <- answer{i, v, err}
		})
	}
	return answers
}

// enqueue sends a request to be in the queue to all nodes, at once. The channel gets one
// reading from each, or an error.
func (c *claim) enqueue(p nodewire.Place, ttl time.Duration) <-chan reading {
	p.Name, p.Lease, p.Shared, p.Record = c.name, c.lease, c.shared, c.record
	answers := make(chan reading, len(c.nodes))
	c.mu.Lock()
	c.ttl, c.queued = max(c.ttl, p.For), true
	for i := range c.nodes {
		c.nodes[i].pending++
	}
	c.mu.Unlock()
	all := c.d.together(len(c.nodes), ttl, false)
	for i, m := range c.d.members {
		send(m, all, func(ctx context.Context) (st nodewire.State, err error) {
			defer m.timed(driver.Now(), &err)
			return m.Enqueue(ctx, p)
		}, func(st nodewire.State, err error) {
			c.answered(i, true, err)
			answers <- reading{node: i, states: []nodewire.State{st}, err: err}
		})
	}
	return answers
}

// grant records that the lease was granted. Where that has not taken it out of the queue, time
// does, or its end.
func (c *claim) grant() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.queued = true, false
}

// answered records the answer of a node, and whether it says that something is left there.
func (c *claim) answered(i int, left bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.nodes[i]
	if t.pending--; t.pending == 0 && t.quiet != nil {
		close(t.quiet)
		t.quiet = nil
	}
	if !errors.Is(err, driver.ErrUnavailable) {
		t.left = t.left || left || err != nil
		t.unknown = t.unknown || err != nil
	}
}

// ended is the outcome of one ending.
type ended struct {
	node int
	had  bool
	next bool // a waiter has the lock now
	err  error
}

// end ends the claim at all nodes where something of it may be, also at those that did not
// answer; with news, it is the claim of another client, and ends at all nodes. The channel has room for as many answers as it
// gets. It owes the ending to nodes where that fails. Where the outcome of a proposal is not
// known, nothing of the claim can take effect after the ending.
//
// A lease that was granted is ended first at the nodes that granted it. If it was short
// the other nodes have not answered yet. The ending follows their answers: to have them
// remember it earlier would cost memory and time. A lock may go to a waiter, with the token next.
func (c *claim) end(news string, next uint64) <-chan ended {
	var told []int
	c.mu.Lock()
	c.over = true
	for i, t := range c.nodes {
		if news != "" || t.left || t.pending > 0 {
			told = append(told, i)
		}
	}
	c.mu.Unlock()
	answers := make(chan ended, len(told))
	if len(told) == 0 {
		return answers
	}
	all := c.d.together(len(told), c.d.ttl, false)
	for _, i := range told {
		m := c.d.members[i]
		e, quiet := c.ending(i, news, next)
		send(m, all, func(ctx context.Context) (ended, error) {
			e := e
			if quiet != nil {
				e.Bar = c.late(ctx, i, quiet)
			}
			had, next, err := m.End(ctx, e)
			return ended{had: had, next: next}, err
		}, func(a ended, err error) {
			if a.node, a.err = i, err; err != nil {
				owed := e
				owed.Next = 0 // somebody else may have the others by then
				m.owe(owed, c.ttl)
			}
			answers <- a
		})
	}
	return answers
}

// ending returns how the claim is ended at a node, and what closes when all proposals are answered, if that is waited for.
func (c *claim) ending(i int, news string, next uint64) (nodewire.Ending, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.nodes[i]
	e := nodewire.Ending{Name: c.name, Lease: c.lease, Bar: t.unknown || t.pending > 0, Held: c.held, Next: next, News: news}
	if t.pending == 0 || t.unknown || !c.held {
		return e, nil
	}
	if t.quiet == nil {
		t.quiet = make(chan struct{})
	}
	return e, t.quiet
}

// late waits until a node has answered all proposals, or has had the time to, and
// reports whether one may still be carried out.
func (c *claim) late(ctx context.Context, node int, quiet <-chan struct{}) bool {
	select {
	case <-quiet:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.nodes[node]
	return t.unknown || t.pending > 0
}
