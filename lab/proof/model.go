// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
)

// Model is a protocol.
type Model struct {
	Sorts    []string
	Fixed    []Function
	State    []Function
	Words    []Word
	Assumed  []Clause
	Actions  []Action
	Holds    []Clause // the invariant
	Promised []Clause // what has to follow from the invariant
	Variants []Variant
	Possible []Scene
}

// Function is a function of the state, or a fixed one.
type Function struct {
	Name  string
	Takes []string
	Gives string
	first *Term // its value at the beginning; nil: any value
}

// Word is an abbreviation for a formula.
type Word struct {
	Name  string
	bound []Term // (name sort)
	body  Term
}

// Clause is a formula with a name.
type Clause struct {
	Name string
	body Term
}

// Action is a kind of step.
type Action struct {
	Name     string
	bound    []Term
	When     []Clause
	sets     []assignment
	Promised []Clause // what has to hold before it
}

// assignment gives a function a new value: at one point, or everywhere.
type assignment struct {
	target     Term
	value      Term
	everywhere bool // the arguments of target are bound in value
}

// Variant is a change to the protocol that makes it wrong.
type Variant struct {
	Name    string
	edits   []Term
	Refuted []string // the obligations that have to fail
}

// Names reports whether o is one of the obligations that have to fail.
func (v Variant) Names(o Obligation) bool { return !o.Sat && slices.Contains(v.Refuted, o.String()) }

// Scene is something that has to be possible.
type Scene struct {
	Name   string
	action string
	more   Term
}

// Read reads a protocol from a file.
func Read(file string) (*Model, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	terms, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	m := &Model{}
	for _, t := range terms {
		if err := m.add(t); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return m, nil
}

func (m *Model) add(t Term) error {
	bad := fmt.Errorf("not understood: %.200s", t)
	if len(t.list) < 2 || !t.list[1].isAtom() {
		return bad
	}
	name, rest := t.list[1].atom, t.list[2:]
	switch what := t.head(); {
	case what == "sort":
		m.Sorts = append(m.Sorts, name)
	case (what == "fixed" || what == "state") && len(rest) >= 2:
		f := Function{Name: name, Gives: rest[1].atom}
		for _, s := range rest[0].list {
			f.Takes = append(f.Takes, s.atom)
		}
		if len(rest) > 2 {
			f.first = &rest[2]
		}
		if what == "fixed" {
			m.Fixed = append(m.Fixed, f)
		} else {
			m.State = append(m.State, f)
		}
	case what == "define" && len(rest) == 2:
		m.Words = append(m.Words, Word{name, rest[0].list, rest[1]})
	case what == "assume" && len(rest) == 1:
		m.Assumed = append(m.Assumed, Clause{name, rest[0]})
	case what == "invariant" && len(rest) == 1:
		m.Holds = append(m.Holds, Clause{name, rest[0]})
	case what == "promise" && len(rest) == 1:
		m.Promised = append(m.Promised, Clause{name, rest[0]})
	case what == "promise" && len(rest) == 2:
		a := m.Action(name)
		if a == nil {
			return bad
		}
		a.Promised = append(a.Promised, Clause{rest[0].atom, rest[1]})
	case what == "action":
		a := Action{Name: name, bound: rest[0].list}
		for _, part := range rest[1:] {
			switch p := part.list; {
			case part.head() == "when" && len(p) == 3:
				a.When = append(a.When, Clause{p[1].atom, p[2]})
			case part.head() == "set" && len(p) == 3, part.head() == "each" && len(p) == 3:
				a.sets = append(a.sets, assignment{p[1], p[2], part.head() == "each"})
			default:
				return fmt.Errorf("not understood in %s: %s", name, part)
			}
		}
		m.Actions = append(m.Actions, a)
	case what == "possible" && len(rest) == 2:
		m.Possible = append(m.Possible, Scene{name, rest[0].atom, rest[1]})
	case what == "variant" && len(rest) >= 2:
		v := Variant{Name: name, edits: rest[:len(rest)-1]}
		last := rest[len(rest)-1]
		if last.head() != "refuted" {
			return bad
		}
		for _, r := range last.list[1:] {
			v.Refuted = append(v.Refuted, r.list[0].atom+" "+r.list[1].atom)
		}
		m.Variants = append(m.Variants, v)
	default:
		return bad
	}
	return nil
}

// Action returns the action of the name, or nil.
func (m *Model) Action(name string) *Action {
	i := slices.IndexFunc(m.Actions, func(a Action) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Actions[i]
}

// With returns the protocol with the changes of v.
func (m *Model) With(v Variant) (*Model, error) {
	c := *m
	c.Actions = slices.Clone(m.Actions)
	c.Assumed = slices.Clone(m.Assumed)
	for _, e := range v.edits {
		if !c.edit(e) {
			return nil, fmt.Errorf("variant %s: %s changes nothing", v.Name, e)
		}
	}
	return &c, nil
}

// edit applies a change of a variant, and reports whether it changed anything. The changes are
// (drop ACTION CONDITION), (forget ASSUMPTION), (instead ACTION CONDITION FORMULA),
// (sets ACTION FUNCTION VALUE) and (let PREDICATE SORT).
func (m *Model) edit(e Term) bool {
	if e.head() == "forget" {
		n := len(m.Assumed)
		m.Assumed = slices.DeleteFunc(m.Assumed, func(c Clause) bool { return c.Name == e.list[1].atom })
		return len(m.Assumed) < n
	}
	if e.head() == "let" {
		m.Fixed = append(slices.Clone(m.Fixed), Function{Name: e.list[1].atom, Takes: []string{e.list[2].atom}, Gives: "Bool"})
		return true
	}
	a := m.Action(e.list[1].atom)
	if a == nil {
		return false
	}
	what := e.list[2].atom
	switch e.head() {
	case "drop":
		n := len(a.When)
		a.When = slices.DeleteFunc(slices.Clone(a.When), func(c Clause) bool { return c.Name == what })
		return len(a.When) < n
	case "instead":
		a.When = slices.Clone(a.When)
		for i := range a.When {
			if a.When[i].Name == what {
				a.When[i].body = e.list[3]
				return true
			}
		}
		a.When = append(a.When, Clause{what, e.list[3]})
		return true
	case "sets":
		a.sets = slices.Clone(a.sets)
		for i := range a.sets {
			if t := a.sets[i].target; t.head() == what || t.atom == what {
				a.sets[i].value = e.list[3]
				return true
			}
		}
	}
	return false
}
