// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"fmt"
	"maps"
	"slices"
)

// scope is where a term is evaluated: each variable has a slot.
type scope struct {
	r    *Run
	vars map[string]int
	next int
	most int
}

func newScope(r *Run, bound []Term) *scope {
	s := &scope{r: r, vars: map[string]int{}}
	for _, b := range bound {
		s.bind(b.list[0].atom)
	}
	return s
}

func (s *scope) bind(name string) int {
	s.vars[name] = s.next
	s.next++
	s.most = max(s.most, s.next)
	return s.next - 1
}

// inner calls f in a scope with more variables, which end with it.
func (s *scope) inner(f func() (eval, error)) (eval, error) {
	vars, next := s.vars, s.next
	s.vars = maps.Clone(vars)
	e, err := f()
	s.vars, s.next = vars, next
	return e, err
}

func (s *scope) compile(t Term) (eval, error) {
	if t.isAtom() {
		return s.atom(t.atom)
	}
	switch f := t.head(); f {
	case "forall", "exists":
		return s.quantifier(t, f == "forall")
	case "and", "or", "not", "=>", "=", "<", "<=", ">", ">=", "+", "-", "ite":
		args, err := s.each(t.list[1:])
		if err != nil {
			return nil, err
		}
		return operator(f, args)
	default:
		if i := slices.IndexFunc(s.r.m.Words, func(w Word) bool { return w.Name == f }); i >= 0 {
			return s.word(s.r.m.Words[i], t.list[1:])
		}
		table := s.r.tables[f]
		args, err := s.each(t.list[1:])
		if table == nil || err != nil || len(args) != len(table.f.Takes) {
			return nil, fmt.Errorf("not understood: %s: %w", t, err)
		}
		switch len(args) {
		case 1:
			return func(v []int64) int64 { return table.get([2]int64{0, args[0](v)}) }, nil
		case 2:
			return func(v []int64) int64 { return table.get([2]int64{args[0](v), args[1](v)}) }, nil
		}
		return func([]int64) int64 { return table.get([2]int64{}) }, nil
	}
}

func (s *scope) each(ts []Term) (args []eval, err error) {
	for _, t := range ts {
		e, err := s.compile(t)
		if err != nil {
			return nil, err
		}
		args = append(args, e)
	}
	return args, nil
}

func (s *scope) atom(name string) (eval, error) {
	if slot, ok := s.vars[name]; ok {
		return func(v []int64) int64 { return v[slot] }, nil
	}
	if n, ok := literal(name); ok {
		return func([]int64) int64 { return n }, nil
	}
	if table := s.r.tables[name]; table != nil {
		return func([]int64) int64 { return table.get([2]int64{}) }, nil
	}
	return nil, fmt.Errorf("%s is not known", name)
}

// word evaluates the arguments into slots, and then the body.
func (s *scope) word(w Word, args []Term) (eval, error) {
	values, err := s.each(args)
	if err != nil || len(values) != len(w.bound) {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	return s.inner(func() (eval, error) {
		s.vars = map[string]int{}
		var slots []int
		for _, b := range w.bound {
			slots = append(slots, s.bind(b.list[0].atom))
		}
		body, err := s.compile(w.body)
		return func(v []int64) int64 {
			for i, e := range values {
				v[slots[i]] = e(v)
			}
			return body(v)
		}, err
	})
}

func (s *scope) quantifier(t Term, all bool) (eval, error) {
	return s.inner(func() (eval, error) {
		var slots, sorts []int
		for _, b := range t.list[1].list {
			sort := slices.Index(s.r.m.Sorts, b.list[1].atom)
			if sort < 0 {
				return nil, fmt.Errorf("any number of %s", b.list[1])
			}
			slots, sorts = append(slots, s.bind(b.list[0].atom)), append(sorts, sort)
		}
		body, err := s.compile(t.list[2])
		if err != nil {
			return nil, err
		}
		for i := len(slots) - 1; i >= 0; i-- {
			inner, slot, sort := body, slots[i], sorts[i]
			among, err := s.among(t, all, i)
			if err != nil {
				return nil, err
			}
			body = func(v []int64) int64 {
				for x := int64(1); x <= s.r.sizes[sort]; x++ {
					v[slot] = x
					if among != nil && among(v) == 0 {
						continue
					}
					if (inner(v) == 1) != all {
						return truth(!all)
					}
				}
				return truth(all)
			}
		}
		return body, nil
	})
}

// among returns a condition without which the i-th variable of a quantifier makes no difference, whatever
// come after it: most rounds are over, and most locks have gone. Nil is none.
func (s *scope) among(t Term, all bool, i int) (eval, error) {
	later := map[string]bool{}
	for _, b := range t.list[1].list[i+1:] {
		later[b.list[0].atom] = true
	}
	var conditions []Term
	switch body := t.list[2]; {
	case !all:
		conditions = s.parts(body, "and")
	case body.head() == "=>":
		conditions = s.parts(body.list[1], "and")
	case body.head() == "not":
		conditions = s.parts(body.list[1], "and")
	}
	for _, c := range conditions {
		at := slices.IndexFunc(c.list, func(a Term) bool { return a.atom == t.list[1].list[i].list[0].atom })
		if s.r.tables[c.head()] == nil || at < 0 || slices.ContainsFunc(c.list, func(a Term) bool { return !a.isAtom() || later[a.atom] }) {
			continue
		}
		return s.compile(c)
	}
	return nil, nil
}

// parts returns the terms that a term joins by an operator, or the term.
func (s *scope) parts(t Term, operator string) []Term {
	if t.head() != operator {
		return []Term{t}
	}
	var all []Term
	for _, p := range t.list[1:] {
		all = append(all, s.parts(p, operator)...)
	}
	return all
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func operator(f string, a []eval) (eval, error) {
	wants := map[string]int{"not": 1, "=>": 2, "=": 2, "<": 2, "<=": 2, ">": 2, ">=": 2, "+": 2, "-": 2, "ite": 3}
	if n := wants[f]; n > 0 && len(a) != n {
		return nil, fmt.Errorf("%s of %d", f, len(a))
	}
	switch f {
	case "and", "or":
		stop := truth(f == "or")
		return func(v []int64) int64 {
			for _, e := range a {
				if e(v) == stop {
					return stop
				}
			}
			return 1 - stop
		}, nil
	case "not":
		return func(v []int64) int64 { return 1 - a[0](v) }, nil
	case "=>":
		return func(v []int64) int64 { return truth(a[0](v) == 0 || a[1](v) == 1) }, nil
	case "=":
		return func(v []int64) int64 { return truth(a[0](v) == a[1](v)) }, nil
	case "<":
		return func(v []int64) int64 { return truth(a[0](v) < a[1](v)) }, nil
	case "<=":
		return func(v []int64) int64 { return truth(a[0](v) <= a[1](v)) }, nil
	case ">":
		return func(v []int64) int64 { return truth(a[0](v) > a[1](v)) }, nil
	case ">=":
		return func(v []int64) int64 { return truth(a[0](v) >= a[1](v)) }, nil
	case "+":
		return func(v []int64) int64 { return a[0](v) + a[1](v) }, nil
	case "-":
		return func(v []int64) int64 { return a[0](v) - a[1](v) }, nil
	}
	return func(v []int64) int64 {
		if a[0](v) == 1 {
			return a[1](v)
		}
		return a[2](v)
	}, nil
}
