// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// Obligation is a question to a solver. Action is the name of an action, or "initially"
// for the beginning, or "always" for any state.
type Obligation struct {
	Action, Name string
	text         string // assertions in addition to the common part of its group
	Sat          bool   // the assertions have to be satisfiable; otherwise unsatisfiable
}

// String returns the name that variants use: "ACTION CLAUSE".
func (o Obligation) String() string { return o.Action + " " + o.Name }

// group is a list of obligations with a common part.
type group struct {
	common string
	list   []Obligation
}

// groups returns all obligations: those for the beginning, the promises for any state, and
// those of each action.
func (m *Model) groups() []group {
	var first strings.Builder
	m.declare(&first, false)
	for _, f := range m.State {
		if f.first != nil {
			assert(&first, forall(f.Takes, call("=", apply(f.Name, args(f.Takes)...), *f.first)))
		}
	}
	start := group{common: first.String()}
	for _, c := range m.Holds {
		start.list = append(start.list, Obligation{Action: "initially", Name: c.Name, text: fails(c.body)})
	}
	var any strings.Builder
	m.declare(&any, true)
	always := group{common: any.String()}
	for _, c := range m.Promised {
		always.list = append(always.list, Obligation{Action: "always", Name: c.Name, text: fails(c.body)})
	}
	always.list = append(always.list, Obligation{Action: "always", Name: "possible", Sat: true})
	gs := []group{start, always}
	for _, a := range m.Actions {
		gs = append(gs, m.step(a))
	}
	return gs
}

// step returns the obligations of an action: its promises hold before it, the invariant
// holds after it, and it can happen.
func (m *Model) step(a Action) group {
	var b strings.Builder
	m.declare(&b, true)
	for _, p := range a.bound {
		fmt.Fprintf(&b, "(declare-const %s %s)\n", p.list[0], p.list[1])
	}
	for _, c := range a.When {
		assert(&b, c.body)
	}
	after := map[string]Term{}
	for _, f := range m.State {
		after[f.Name] = atom(f.Name + "+")
		b.WriteString(define(f.Name+"+", f.Takes, f.Gives, a.after(f)))
	}
	for _, w := range m.Words {
		b.WriteString(word(w.Name+"+", w.bound, w.body.rename(after)))
		after[w.Name] = atom(w.Name + "+")
	}
	g := group{common: b.String()}
	for _, c := range a.Promised {
		g.list = append(g.list, Obligation{Action: a.Name, Name: c.Name, text: fails(c.body)})
	}
	for _, c := range m.Holds {
		g.list = append(g.list, Obligation{Action: a.Name, Name: c.Name, text: fails(c.body.rename(after))})
	}
	g.list = append(g.list, Obligation{Action: a.Name, Name: "possible", Sat: true})
	for _, s := range m.Possible {
		if s.action == a.Name {
			var more strings.Builder
			assert(&more, s.more.rename(map[string]Term{}))
			g.list = append(g.list, Obligation{Action: a.Name, Name: s.Name, text: more.String(), Sat: true})
		}
	}
	return g
}

// after returns the value of f at x0, x1, ... after the action.
func (a Action) after(f Function) Term {
	xs := args(f.Takes)
	value := apply(f.Name, xs...)
	for _, s := range a.sets {
		if s.target.atom != f.Name && s.target.head() != f.Name {
			continue
		}
		var at []Term
		if !s.target.isAtom() {
			at = s.target.list[1:]
		}
		if s.everywhere {
			names := map[string]Term{}
			for i, p := range at {
				names[p.atom] = xs[i]
			}
			value = s.value.rename(names)
			continue
		}
		var hits []Term
		for i, p := range at {
			hits = append(hits, call("=", xs[i], p))
		}
		value = call("ite", all(hits), s.value, value)
	}
	return value
}

// declare writes the sorts, functions, words and assumptions. If holds is set, it also asserts
// the invariant.
func (m *Model) declare(b *strings.Builder, holds bool) {
	for _, s := range m.Sorts {
		fmt.Fprintf(b, "(declare-sort %s 0)\n", s)
	}
	for _, fs := range [][]Function{m.Fixed, m.State} {
		for _, f := range fs {
			fmt.Fprintf(b, "(declare-fun %s (%s) %s)\n", f.Name, strings.Join(f.Takes, " "), f.Gives)
		}
	}
	for _, w := range m.Words {
		b.WriteString(word(w.Name, w.bound, w.body))
	}
	for _, c := range m.Assumed {
		assert(b, c.body)
	}
	if holds {
		for _, c := range m.Holds {
			assert(b, c.body)
		}
	}
}

func assert(b *strings.Builder, t Term) { fmt.Fprintf(b, "(assert %s)\n", t) }

func fails(t Term) string { return fmt.Sprintf("(assert (not %s))\n", t) }

func word(name string, bound []Term, body Term) string {
	return fmt.Sprintf("(define-fun %s %s Bool %s)\n", name, Term{list: bound}, body)
}

func define(name string, takes []string, gives string, body Term) string {
	var bound []string
	for i, s := range takes {
		bound = append(bound, fmt.Sprintf("(x%d %s)", i, s))
	}
	return fmt.Sprintf("(define-fun %s (%s) %s %s)\n", name, strings.Join(bound, " "), gives, body)
}

func args(takes []string) []Term {
	xs := make([]Term, len(takes))
	for i := range takes {
		xs[i] = atom(fmt.Sprintf("x%d", i))
	}
	return xs
}

func apply(f string, xs ...Term) Term {
	if len(xs) == 0 {
		return atom(f)
	}
	return call(f, xs...)
}

func forall(takes []string, body Term) Term {
	if len(takes) == 0 {
		return body
	}
	var bound []Term
	for i, s := range takes {
		bound = append(bound, list(atom(fmt.Sprintf("x%d", i)), atom(s)))
	}
	return call("forall", Term{list: bound}, body)
}
