// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// clock is a counter that serves as a clock: each call of now, in any goroutine, returns a greater
// number than the calls before it. So no two instants are equal.
type clock struct{ atomic.Int64 }

func (c *clock) now() int64 { return c.Add(1) }

// span is the time between the begin and the return of a call.
type span struct{ call, ret int64 }

func (s span) overlaps(o span) bool { return s.call <= o.ret && o.call <= s.ret }

// held is a lease with what the history knows about it.
type held struct {
	*pawl.Lease
	n      int  // its number in the history
	kind   kind // the kind that was granted
	worker int
	seen   span   // the last look that found the lease held
	over   int64  // when the release returned
	lost   bool   // it ended early, and not because of a break
	early  bool   // the store ended it while its holder could trust it
	breaks []span // calls that broke it, or may have broken it
	misses []span // calls to break it that found it ended
}

// history is the history of a name.
type history struct {
	name   string
	kinds  []kind
	waited bool // some callers wait for it, and some of them give up
	broken bool // workers break leases
	kept   bool // clients keep released leases

	mu    sync.Mutex
	doubt bool // the outcome of an attempt is unknown
	left  int  // calls that may still be made
	ops   []operation
	known []*held
	tries []span // all attempts to acquire, with any outcome
}

// begin reports whether one more call may be made, and counts it.
func (h *history) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left--
	return h.left >= 0
}

func (h *history) add(at span, o operation) {
	o.call, o.ret = at.call, at.ret
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// attempt notes that a call of Acquire or TryAcquire has returned. It returns the lease, or
// nil.
func (h *history) attempt(at span, worker int, k kind, l *pawl.Lease, err error) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = append(h.tries, at)
	o := operation{worker: worker, kind: k, call: at.call, ret: at.ret}
	var slots *pawl.SlotsError
	switch {
	case err == nil:
		g := &held{Lease: l, n: len(h.known) + 1, kind: k, worker: worker, seen: at, over: never}
		h.known = append(h.known, g)
		o.do, o.lease, o.token = granted, g.n, uint64(l.Token())
		h.ops = append(h.ops, o)
		return g
	case errors.As(err, &slots):
		o.do, o.held = otherSlots, kind(slots.Held)
	case errors.Is(err, pawl.ErrHeld):
		o.do = refused
	default:
		h.doubt = true // the attempt got no lease, but until its traces are removed it may keep others out
		return nil
	}
	h.ops = append(h.ops, o)
	return nil
}

// downgraded notes that l was granted in place of g, and returns l.
func (h *history) downgraded(at span, g *held, l *pawl.Lease) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := &held{Lease: l, n: len(h.known) + 1, kind: shared, worker: g.worker, seen: at, over: never}
	h.known = append(h.known, n)
	h.ops = append(h.ops, operation{do: downgraded, lease: g.n, heir: n.n, kind: shared, token: uint64(l.Token()), worker: g.worker, call: at.call, ret: at.ret})
	g.over = at.ret
	return n
}

// conditions are the conditions of a run. They decide how much an operation proves.
type conditions struct {
	sure      driver.Guarantees
	calm      bool // nothing failed, so refused attempts left no traces
	restarted bool // the store was restarted
}

// operations returns the history for the model. It leaves out operations that prove nothing under
// the conditions c.
func (h *history) operations(c conditions) []operation {
	back := make(map[int]span) // when leases were released
	for _, o := range h.ops {
		if o.do == released {
			back[o.lease] = span{o.call, o.ret}
		}
	}
	var ops []operation
	for _, o := range h.ops {
		switch o.do {
		case refused, otherSlots:
			// The reason for a refusal may be another call that runs, waits, or has given
			// up, or a client that keeps a lease and is slow to release it.
			if !c.calm || !c.sure.FIFO || h.waited || h.kept || h.doubt || !h.alone(o) {
				continue
			}
		case released, broke, missed:
			// On a store whose requests have no order, some nodes carry out the break and
			// others the release or another break; then both calls ended the lease. And a
			// client that repeats a request because its answer was lost only learns that the
			// lease has ended.
			at, ok := back[o.lease]
			both := o.do == broke && !c.sure.FIFO && (ok && at.overlaps(span{o.call, o.ret}) || h.brokenTwice(o))
			if both || !c.calm {
				o.do = mayEnd
			}
		}
		ops = append(ops, o)
	}
	for _, g := range h.known {
		o := operation{do: trusted, lease: g.n, worker: g.worker, call: g.seen.call, ret: g.seen.ret}
		broken := func(b span) bool { return b.call < g.seen.ret }
		if !slices.ContainsFunc(g.breaks, broken) { // a holder trusts a broken lease until it learns of the break
			ops = append(ops, o)
		}
		if g.lost {
			o.do = mayEnd
			ops = append(ops, o)
		}
	}
	return ops
}

// brokenTwice reports whether another call broke the same lease at the same time.
func (h *history) brokenTwice(o operation) bool {
	n := 0
	for _, b := range h.ops {
		if b.do == broke && b.lease == o.lease && (span{b.call, b.ret}).overlaps(span{o.call, o.ret}) {
			n++
		}
	}
	return n > 1
}

// alone reports whether a refused call was the only attempt at that time, and no broken lease was
// still in the hands of a holder, perhaps in the same client, that had not learned of the break.
func (h *history) alone(o operation) bool {
	at, n := span{o.call, o.ret}, 0
	for _, t := range h.tries {
		if t.overlaps(at) {
			n++
		}
	}
	for _, g := range h.known {
		for _, b := range g.breaks {
			if at.overlaps(span{b.call, g.over}) {
				n++
			}
		}
	}
	return n == 1
}
