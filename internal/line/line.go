// SPDX-License-Identifier: Apache-2.0

// Package line decides in which order the goroutines of one client that want one name
// ask the store for it, and which of them inherits a lease. It only decides: it has no
// goroutines, no locks and no clock, so that a test can enumerate what may happen.
//
// The first in the line asks the store as soon as all that came before it have got
// what they wanted, even if that is still held: so a writer behind readers of its own
// client has a place in the store's queue, where readers of other clients cannot
// overtake it. If the first is a reader, so do the readers behind it: in which order they
// arrive at the store does not matter, as they are granted together. Those that want
// slots go one by one, since one of them may be the last.
//
// One waiter does not ask: the one that wants an exclusive lease behind a held one. It
// may inherit that lease.
package line

import "iter"

// Kind is what a request asks for: exclusive, shared, or one of so many slots.
type Kind int

const (
	Exclusive Kind = 0
	Shared    Kind = -1
)

// Line is where the goroutines of one client wait for one name. H is what holds the name
// exclusively, or the zero value; W is what waits.
type Line[H comparable, W any] struct {
	holder      H
	asking      int  // calls that are at the store
	kind        Kind // what those ask for
	first, last *Place[W]
}

// Place is a place in a line. Of and Kind are set by its owner.
type Place[W any] struct {
	Of   W
	Kind Kind

	prev, next *Place[W]
	called     bool // it is not in the line any more
}

// Enter lets a call in that asks the store at once. If it returns false the call has to Wait.
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

// Next takes the next waiter out of the line that has to ask the store now. It returns nil
// if there is none. It has to be called until then whenever something has changed.
func (l *Line[H, W]) Next() *Place[W] {
	p := l.first
	if p == nil || !l.admits(p.Kind) {
		return nil
	}
	l.ask(p.Kind)
	l.remove(p)
	return p
}

// Answered ends the asking of one call, whatever it has got.
func (l *Line[H, W]) Answered() { l.asking-- }

// Hold notes that h holds the name exclusively.
func (l *Line[H, W]) Hold(h H) { l.holder = h }

// Leave notes that h does not hold the name any more, or not exclusively. It reports
// whether it did.
func (l *Line[H, W]) Leave(h H) bool {
	if l.holder != h {
		return false
	}
	var nobody H
	l.holder = nobody
	return true
}

// Holder returns what holds the name exclusively, or the zero value.
func (l *Line[H, W]) Holder() H { return l.holder }

// Heir returns the waiter that may inherit the exclusive lease of h, or nil. While a call
// is at the store there is none: that call came before all that wait.
func (l *Line[H, W]) Heir(h H) *Place[W] {
	if l.holder != h || l.asking > 0 {
		return nil
	}
	return l.first // those that want another kind are at the store, see Next
}

// Quiet reports whether h holds the name exclusively and no call of this client wants it.
func (l *Line[H, W]) Quiet(h H) bool {
	return l.holder == h && l.asking == 0 && l.first == nil
}

// Inherit takes the heir p out of the line, which holds the name as h from now on. Those behind
// it may have to ask the store, if they want another kind.
func (l *Line[H, W]) Inherit(p *Place[W], h H) {
	l.remove(p)
	l.holder = h
}

// Quit takes p out of the line, which gives up. It reports false if p was called before,
// and else how many were ahead of it, counted up to most.
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

// Waiting reports whether anybody waits.
func (l *Line[H, W]) Waiting() bool { return l.first != nil }

// Over reports whether nothing is left of the line: no call asks, and none holds the
// name. None waits then.
func (l *Line[H, W]) Over() bool {
	var nobody H
	return l.asking == 0 && l.holder == nobody
}
