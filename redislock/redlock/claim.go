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

// claim is what one lease id may have at the nodes. It is an attempt at first, and may
// become a grant.
type claim struct {
	d      *store
	name   string
	lease  string
	record string
	shared bool

	mu     sync.Mutex
	held   bool    // the lease was granted
	queued bool    // the claim may be in the queues of nodes
	nodes  []trace // by the index of the node
	ttl    time.Duration
	over   bool // end was called
}

// trace is what a claim may have left at a node.
type trace struct {
	left    bool // the claim may have the lock there, or a place in the queue
	pending int  // how many requests have not been answered
	unknown bool // a request was given up without an answer

	quiet chan struct{} // closed when pending is 0 again; nil if no ending waits for that
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

// propose sends a proposal to all nodes at once. The lease lasts for within, which decides how long
// the nodes may take. The channel gets one answer or error from each node. propose returns nil if the
// claim was ended: the endings bar only the proposals that were under way when they were sent.
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

// enqueue asks all nodes at once to put the claim in their queues. The channel gets one
// reading or error from each node.
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

// grant records that the lease was granted. A node may still have the claim in its queue; the
// place there expires, or ends with the claim.
func (c *claim) grant() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.queued = true, false
}

// answered records the answer of a node to a request. left says that the claim may have something there.
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

// end ends the claim at every node that may have something of it, and at nodes that did not
// answer. With news, the claim is another client's, and end ends it at all nodes. The channel
// has room for all answers. If the ending fails at a node, the client owes it to that node. If
// the outcome of a proposal is not known, the node remembers the ending, and refuses the
// proposal if it arrives later.
//
// A lease that was granted may end before all nodes have answered. Then end sends the ending to
// a node after the answer of the node: an earlier ending would cost the node memory and time,
// because it would have to remember it. A node may give the lock to a waiter, with the token next.
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
				owed.Next = 0 // by then somebody else may have the lock at the other nodes
				m.owe(owed, c.ttl)
			}
			answers <- a
		})
	}
	return answers
}

// ending returns the ending for a node. If the ending has to wait for answers of the node, the channel closes when all have come.
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

// late waits until a node has answered all requests, or until ctx ends. It reports whether
// the node may still carry one out.
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
