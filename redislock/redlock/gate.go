// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"container/list"
	"context"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// The gate bounds the calls of a client that are under way. Otherwise thousands of goroutines that ask at
// once would queue up in this process and at the nodes, and the nodes would answer a renewal behind them
// too late. So a call waits at the gate before its first request. Its clock and its timeout begin after
// the gate. If its context ends at the gate, it has sent nothing and leaves nothing.
//
// The gate lets calls in by their class. Renewals and releases never wait for calls that want a lease.

// class says which other calls a call waits for.
type class int

const (
	// timed is for calls with a lease that is running out: renewals, whose number package pawl
	// bounds, and waiters that nodes have voted for. They enter at once.
	timed class = iota
	// ending is for calls that give a lease back. They wait for one another.
	ending
	// wanting is for calls that want a lease, or look for one. They wait for calls of all classes.
	wanting
	classes
)

const (
	// maxRoom is the largest room of a gate. Fewer calls do not keep the processors of the client and of nearby nodes busy.
	// With more calls, each of them only takes longer.
	maxRoom = 128
	// minRoom is the room at first, and the smallest room if nodes are slow.
	minRoom = 8
)

// gate lets in as many calls as the nodes can answer soon.
type gate struct {
	mu     sync.Mutex
	room   int          // a call that has to wait enters if fewer calls than this are under way
	busy   [classes]int // how many calls are under way
	queues [classes]list.List

	quick  int            // rounds that were answered soon since room last changed
	shrunk driver.Instant // when room last became less; 0 if never
}

// enter waits until the gate lets the call in. Calls of one class enter in the order in which they came. If enter returns
// an error, the call has sent nothing.
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

// has reports whether there is room for a call of class c. g.mu is held.
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

// out ends a call of class c, and lets others in while there is room. g.mu is held.
func (g *gate) out(c class) {
	g.busy[c]--
	for c := ending; c <= wanting; c++ {
		for q := &g.queues[c]; q.Len() > 0 && g.has(c); g.busy[c]++ {
			close(q.Remove(q.Front()).(chan struct{}))
		}
	}
}

// paced records whether the nodes answered a round soon or late, and adapts the room. sent is when the round was sent.
// Rounds that are late at the same time have one cause, so the room shrinks only once for them.
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
		if g.shrunk == 0 { // no round has been late yet: grow fast
			more = g.room
		}
		g.room, g.quick = min(g.room+more, maxRoom), 0
	}
}
