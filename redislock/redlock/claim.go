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

// propose sends a proposal to all nodes at once. The lease lasts for within, which decides how long
// the nodes may take. propose returns nil if the claim was ended: the endings bar only the proposals that
// were under way when they were sent.
func (c *claim) propose(mode nodewire.Mode, token uint64, ttl, within time.Duration) <-chan reply[nodewire.Vote] {
	p := nodewire.Proposal{Mode: mode, Name: c.name, Lease: c.lease, Token: token, TTL: ttl, Record: c.record, Shared: c.shared}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return nil
	}
	p.Queued = c.queued
	c.begin(ttl)
	c.mu.Unlock()
	return sendAll(c, within, mode != nodewire.Take, func(ctx context.Context, m *member) (nodewire.Vote, error) {
		return m.Propose(ctx, p)
	}, func(v nodewire.Vote) bool { return v.Has })
}

// enqueue asks all nodes at once to put the claim in their queues.
func (c *claim) enqueue(p nodewire.Place, ttl time.Duration) <-chan reply[nodewire.State] {
	p.Name, p.Lease, p.Shared, p.Record = c.name, c.lease, c.shared, c.record
	c.mu.Lock()
	c.queued = true
	c.begin(p.For)
	c.mu.Unlock()
	return sendAll(c, ttl, false, func(ctx context.Context, m *member) (nodewire.State, error) {
		return m.Enqueue(ctx, p)
	}, func(nodewire.State) bool { return true })
}

// begin records that all nodes are asked now for something that lasts for ttl. The caller holds mu.
func (c *claim) begin(ttl time.Duration) {
	c.ttl = max(c.ttl, ttl)
	for i := range c.nodes {
		c.nodes[i].pending++
	}
}

// sendAll sends a request to all nodes at once, after begin. leaves reports whether a node with this answer may have
// something of the claim.
func sendAll[T any](c *claim, ttl time.Duration, timed bool, f func(context.Context, *member) (T, error), leaves func(T) bool) <-chan reply[T] {
	return ask(c.d, c.d.every, ttl, timed, func(ctx context.Context, node int) (answer T, err error) {
		m := c.d.members[node]
		defer m.timed(driver.Now(), &err)
		return f(ctx, m)
	}, func(r reply[T]) { c.answered(r.node, leaves(r.answer), r.err) })
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

// ended is what a node answers to an ending.
type ended struct {
	had  bool // the lease had the lock
	next bool // a waiter has the lock now
}

// end ends the claim at every node that may have something of it, and at nodes that did not
// answer. With news, the claim is another client's, and end ends it at all nodes. If the ending fails at a node, the client owes it to that node. If
// the outcome of a proposal is not known, the node remembers the ending, and refuses the
// proposal if it arrives later.
//
// A lease that was granted may end before all nodes have answered. Then end sends the ending to
// a node after the answer of the node: an earlier ending would cost the node memory and time,
// because it would have to remember it. A node may give the lock to a waiter, with the token next.
func (c *claim) end(news string, next uint64) <-chan reply[ended] {
	var told []int
	c.mu.Lock()
	c.over = true
	for i, t := range c.nodes {
		if news != "" || t.left || t.pending > 0 {
			told = append(told, i)
		}
	}
	endings, quiet := make([]nodewire.Ending, len(c.nodes)), make([]<-chan struct{}, len(c.nodes))
	for _, i := range told {
		endings[i], quiet[i] = c.ending(i, news, next)
	}
	c.mu.Unlock()
	return ask(c.d, told, c.d.ttl, false, func(ctx context.Context, i int) (a ended, err error) {
		e := endings[i]
		if quiet[i] != nil {
			e.Bar = c.late(ctx, i, quiet[i])
		}
		a.had, a.next, err = c.d.members[i].End(ctx, e)
		return a, err
	}, func(r reply[ended]) {
		if r.err != nil {
			owed := endings[r.node]
			owed.Next = 0 // by then somebody else may have the lock at the other nodes
			c.d.members[r.node].owe(owed, c.ttl)
		}
	})
}

// ending returns the ending for a node. If the ending has to wait for answers of the node, the channel closes when all have
// come. The caller holds mu.
func (c *claim) ending(i int, news string, next uint64) (nodewire.Ending, <-chan struct{}) {
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
