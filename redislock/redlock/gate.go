// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/list"
	"context"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// The calls of a client that are under way at a time are bounded. Thousands of goroutines that ask at
// once would otherwise queue up in this process and at the nodes, until a renewal that comes behind them
// is answered too late. So a call waits at the gate before its first request. Its clock and its timeout
// begin behind the gate, and if its context ends before, it has sent nothing and leaves nothing.
//
// The gate lets calls in by their class. Renewals and releases never wait for calls that want a lease.

// class says how soon a call is let in.
type class int

const (
	// timed is for calls whose time runs: a renewal, of which package pawl bounds the number, and a
	// waiter that nodes have voted for. They are let in at once, and others wait for them.
	timed class = iota
	// ending is for calls that give a lease back. They wait for one another.
	ending
	// wanting is for calls that want a lease, or look for one. They wait for all.
	wanting
	classes
)

const (
	// maxRoom is how many calls that wait for others may be under way. Fewer do not keep the processors of a client and of
	// nodes nearby busy, and more only make each of them take longer.
	maxRoom = 128
	// minRoom is how many may be where nodes are slow, and at first.
	minRoom = 8
)

// gate lets calls in: as many as the nodes answer soon.
type gate struct {
	mu     sync.Mutex
	room   int          // how many calls of a class may be under way
	busy   [classes]int // how many are
	queues [classes]list.List

	quick  int            // rounds that were answered soon since room has changed
	shrunk driver.Instant // when room became less
}

// enter waits until the gate lets the call in. Calls of one class enter in the order in which they came. An error says
// that nothing was sent.
func (d *store) enter(ctx context.Context, c class) error {
	g := &d.gate
	g.mu.Lock()
	if g.queues[c].Len() == 0 && g.has(c) {
		g.busy[c]++
		g.mu.Unlock()
		return nil
	}
	in := make(chan struct{})
	place := g.queues[c].PushBack(in)
	g.mu.Unlock()
	var err error
	select {
	case <-in:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-d.ctx.Done():
		err = unavailable(errClosed)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-in:
		g.out(c)
	default:
		g.queues[c].Remove(place)
	}
	return err
}

// leave ends a call that was let in.
func (d *store) leave(c class) {
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	d.gate.out(c)
}

// has reports whether there is room for a call. g.mu is held.
func (g *gate) has(c class) bool {
	busy := 0
	switch c {
	case ending:
		busy = g.busy[ending]
	case wanting:
		busy = g.busy[timed] + g.busy[ending] + g.busy[wanting]
	}
	return busy < g.room
}

// out ends a call and lets others in while there is room. g.mu is held.
func (g *gate) out(c class) {
	g.busy[c]--
	for c := ending; c <= wanting; c++ {
		for q := &g.queues[c]; q.Len() > 0 && g.has(c); g.busy[c]++ {
			close(q.Remove(q.Front()).(chan struct{}))
		}
	}
}

// paced records that a round that was sent at an instant was answered soon, or late. Many that are late at the
// same time are late for one reason.
func (g *gate) paced(sent driver.Instant, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case late && sent >= g.shrunk:
		g.room, g.quick, g.shrunk = max(g.room/2, minRoom), 0, driver.Now()
	case late, g.room == maxRoom:
	default:
		if g.quick++; g.quick < g.room {
			return
		}
		more := g.room / 8
		if g.shrunk == 0 { // it has only begun
			more = g.room
		}
		g.room, g.quick = min(g.room+more, maxRoom), 0
	}
}
