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

// clock counts instead of measuring: each stamp is larger than all that were taken
// before it, by whomever, so that no two are the same.
type clock struct{ atomic.Int64 }

func (c *clock) now() int64 { return c.Add(1) }

// span is the time of one call.
type span struct{ call, ret int64 }

func (s span) overlaps(o span) bool { return s.call <= o.ret && o.call <= s.ret }

// held is a lease and what is known of it.
type held struct {
	*pawl.Lease
	n      int  // its number in the history
	kind   kind // as it was granted
	worker int
	seen   span // when it was last seen to be held
	over   int64
	lost   bool   // other than by a break
	early  bool   // the store ended it while its holder could trust it
	breaks []span // calls that have ended it, or may have
	misses []span // calls to break it that found that it is over
}

// history is what happened to one name.
type history struct {
	name   string
	kinds  []kind
	waited bool // some wait for it, and some of them give up
	broken bool // leases are broken
	kept   bool // leases are kept when nobody uses them

	mu    sync.Mutex
	doubt bool // an attempt has failed
	left  int  // calls that may still be made
	ops   []operation
	known []*held
	tries []span // all attempts, whatever has become of them
}

// begin asks for leave to make one more call.
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

// attempt notes that a call of Acquire or TryAcquire has returned, and returns the
// lease, if there is one.
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
		h.doubt = true // what it has left is undone, and no lease came of it, but it may keep others out
		return nil
	}
	h.ops = append(h.ops, o)
	return nil
}

// downgraded notes that l was granted in place of g, and returns it.
func (h *history) downgraded(at span, g *held, l *pawl.Lease) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := &held{Lease: l, n: len(h.known) + 1, kind: shared, worker: g.worker, seen: at, over: never}
	h.known = append(h.known, n)
	h.ops = append(h.ops, operation{do: downgraded, lease: g.n, heir: n.n, kind: shared, token: uint64(l.Token()), worker: g.worker, call: at.call, ret: at.ret})
	g.over = at.ret
	return n
}

// conditions are those of a run, by which operations mean more or less.
type conditions struct {
	sure      driver.Guarantees
	calm      bool // nothing failed: nothing is left of attempts that were refused
	restarted bool // the store was
}

// operations returns the history as the model sees it, without operations that say
// nothing.
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
			// A call that runs at the same time, waits, or has given up may be the
			// reason. So may a client that keeps a lease and is slow to give it back.
			if !c.calm || !c.sure.FIFO || h.waited || h.kept || h.doubt || !h.alone(o) {
				continue
			}
		case released, broke, missed:
			// Where requests have no order, some nodes carry out the break and others
			// the release, or another break: both have ended the lease. And a request that is repeated
			// because its answer was lost finds only that the lease is over.
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
		if !slices.ContainsFunc(g.breaks, broken) { // else its holder trusts it until it learns of the break
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

// alone reports whether a call that was refused was the only one to ask, and no lease
// was broken whose holder, perhaps in the same client, did not know that yet.
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
