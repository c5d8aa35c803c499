// SPDX-License-Identifier: Apache-2.0

// Package line decides in which order the goroutines of one client ask the store for a
// name, and which of them inherits a lease. It only decides: it has no goroutines, locks or
// clocks, so that a test can enumerate what may happen.
//
// The first waiter asks the store when each earlier call has its lease, even while these
// leases are held. So a writer behind readers of its own client has a place in the store's
// queue, and readers of other clients cannot overtake it. Readers that follow each other
// ask at the same time: the store grants them together, in any order. Waiters for slots
// ask one by one, because there may be one slot left.
//
// A waiter for an exclusive lease behind an exclusive lease of this client does not ask. It
// may inherit that lease.
package line

import "iter"

// Kind is what a request asks for: exclusive, shared, or one of so many slots.
type Kind int

const (
	Exclusive Kind = 0
	Shared    Kind = -1
)

// Line is the line of one client's goroutines for one name. H is the type of its exclusive
// holder, W the type of its waiters.
type Line[H comparable, W any] struct {
	holder      H    // the zero value if there is none
	asking      int  // calls that ask the store
	kind        Kind // what they ask for
	first, last *Place[W]
}

// Place is a place in a line. Its owner sets Of and Kind.
type Place[W any] struct {
	Of   W
	Kind Kind

	prev, next *Place[W]
	called     bool // it has left the line
}

// Enter registers a call that asks the store at once. If it returns false, the call must Wait.
func (l *Line[H, W]) Enter(k Kind) bool {
	if l.first != nil || !l.admits(k) {
		return false
	}
	l.ask(k)
	return true
}

// Wait puts p at the end of the line.
func (l *Line[H, W]) Wait(p *Place[W]) {
	if p.prev = l.last; p.prev != nil {
		p.prev.next = p
	} else {
		l.first = p
	}
	l.last = p
}

// admits reports whether the first in the line may ask the store for k.
func (l *Line[H, W]) admits(k Kind) bool {
	if l.asking == 0 {
		var nobody H
		return k != Exclusive || l.holder == nobody
	}
	return k == Shared && l.kind == Shared
}

func (l *Line[H, W]) ask(k Kind) {
	l.asking++
	l.kind = k
}

// Next takes the next waiter that asks the store now out of the line. It returns nil if there
// is none. After each change, call it until it returns nil.
func (l *Line[H, W]) Next() *Place[W] {
	p := l.first
	if p == nil || !l.admits(p.Kind) {
		return nil
	}
	l.ask(p.Kind)
	l.remove(p)
	return p
}

// Answered notes that one call no longer asks the store.
func (l *Line[H, W]) Answered() { l.asking-- }

// Hold notes that h holds the name exclusively.
func (l *Line[H, W]) Hold(h H) { l.holder = h }

// Leave notes that h no longer holds the name exclusively. It reports whether it did
// before.
func (l *Line[H, W]) Leave(h H) bool {
	if l.holder != h {
		return false
	}
	var nobody H
	l.holder = nobody
	return true
}

// Holder returns the exclusive holder, or the zero value.
func (l *Line[H, W]) Holder() H { return l.holder }

// Heir returns the waiter that may inherit the exclusive lease of h, or nil. While a call
// asks the store there is none, because that call came before all waiters.
func (l *Line[H, W]) Heir(h H) *Place[W] {
	if l.holder != h || l.asking > 0 {
		return nil
	}
	return l.first // it wants an exclusive lease; with another kind it would ask the store
}

// Quiet reports whether h is the exclusive holder and no call of this client wants the name.
func (l *Line[H, W]) Quiet(h H) bool {
	return l.holder == h && l.asking == 0 && l.first == nil
}

// Inherit takes p, the heir, out of the line, and makes h the holder. Waiters behind p that want
// another kind may ask the store now.
func (l *Line[H, W]) Inherit(p *Place[W], h H) {
	l.remove(p)
	l.holder = h
}

// Quit takes p, which gives up, out of the line. It returns how many waiters were ahead of p,
// counted up to most, or false if p had left the line.
func (l *Line[H, W]) Quit(p *Place[W], most int) (ahead int, ok bool) {
	if p.called {
		return 0, false
	}
	for q := p.prev; q != nil && ahead < most; q = q.prev {
		ahead++
	}
	l.remove(p)
	return ahead, true
}

func (l *Line[H, W]) remove(p *Place[W]) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.last = p.prev
	}
	p.prev, p.next, p.called = nil, nil, true
}

// All returns the waiters in their order.
func (l *Line[H, W]) All() iter.Seq[*Place[W]] {
	return func(yield func(*Place[W]) bool) {
		for p := l.first; p != nil && yield(p); p = p.next {
		}
	}
}

// Waiting reports whether there is a waiter.
func (l *Line[H, W]) Waiting() bool { return l.first != nil }

// Over reports whether the line can be removed: no call asks, and there is no holder. Then
// there is no waiter either.
func (l *Line[H, W]) Over() bool {
	var nobody H
	return l.asking == 0 && l.holder == nobody
}
