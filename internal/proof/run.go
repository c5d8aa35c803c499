// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Run is one run of a protocol, with things of which there are so many: it evaluates
// the formulas of which a solver knows for any number.
//
// A value is a number: of an element of a sort, from 1, in the order in which they were
// made; 0 is none. Of a Bool, 1 is true.
type Run struct {
	m       *Model
	sizes   []int64 // of the sorts
	tables  map[string]*table
	actions map[string]*compiled
	holds   []checked
	promise []checked
}

// A table has the values of a function: a row for each first argument, which has what differs from first.
type table struct {
	f     Function
	first int64
	rows  [][]int64
}

type compiled struct {
	Action
	slots    int
	when     []checked
	promised []checked
	sets     []setter
}

type checked struct {
	name  string
	slots int
	eval  eval
}

type setter struct {
	table *table
	at    []eval // where; nil if everywhere
	over  []int  // else the slots that are bound,
	sorts []int  // to elements of these
	value eval
	among *table // everywhere: the value is 0 where that of this table is
}

// eval evaluates a term, whose variables have slots.
type eval func(vars []int64) int64

// Run begins a run of the protocol.
func (m *Model) Run() (*Run, error) {
	r := &Run{m: m, sizes: make([]int64, len(m.Sorts)), tables: map[string]*table{}, actions: map[string]*compiled{}}
	for _, f := range slices.Concat(m.Fixed, m.State) {
		t := &table{f: f}
		if f.first != nil {
			t.first, _ = literal(f.first.atom)
		}
		if len(f.Takes) > 2 {
			return nil, fmt.Errorf("%s takes too much", f.Name)
		}
		r.tables[f.Name] = t
	}
	var err error
	for _, a := range m.Actions {
		if r.actions[a.Name], err = r.action(a); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	if r.holds, err = r.clauses(m.Holds, nil); err != nil {
		return nil, err
	}
	r.promise, err = r.clauses(m.Promised, nil)
	return r, err
}

func (r *Run) clauses(cs []Clause, bound []Term) (all []checked, err error) {
	for _, c := range cs {
		s := newScope(r, bound)
		e, err := s.compile(c.body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all = append(all, checked{c.Name, s.most, e})
	}
	return all, nil
}

func (r *Run) action(a Action) (c *compiled, err error) {
	c = &compiled{Action: a}
	if c.when, err = r.clauses(a.When, a.bound); err != nil {
		return nil, err
	}
	if c.promised, err = r.clauses(a.Promised, a.bound); err != nil {
		return nil, err
	}
	for _, set := range a.sets {
		name := set.target.atom
		var at []Term
		if !set.target.isAtom() {
			name, at = set.target.head(), set.target.list[1:]
		}
		s := newScope(r, a.bound)
		out := setter{table: r.tables[name]}
		if out.table == nil {
			return nil, fmt.Errorf("%s is no state", name)
		}
		for i, p := range at {
			if set.everywhere {
				out.over = append(out.over, s.bind(p.atom))
				out.sorts = append(out.sorts, slices.Index(r.m.Sorts, out.table.f.Takes[i]))
				continue
			}
			e, err := s.compile(p)
			if err != nil {
				return nil, err
			}
			out.at = append(out.at, e)
		}
		if out.value, err = s.compile(set.value); err != nil {
			return nil, err
		}
		if set.everywhere && slices.ContainsFunc(s.parts(set.value, "and"), func(p Term) bool { return p.String() == set.target.String() }) {
			out.among = out.table
		}
		c.slots = max(c.slots, s.most)
		c.sets = append(c.sets, out)
	}
	return c, nil
}

// New makes an element of a sort.
func (r *Run) New(sort string) int64 {
	i := slices.Index(r.m.Sorts, sort)
	r.sizes[i]++
	return r.sizes[i]
}

// Set gives a function a value: one that is fixed, or that has any value at first.
func (r *Run) Set(f string, value int64, at ...int64) { r.tables[f].set(key(at), value) }

// Get returns a value.
func (r *Run) Get(f string, at ...int64) int64 { return r.tables[f].get(key(at)) }

// Step makes a step. It returns an error, and changes nothing, if a condition of the
// action is false or what is promised before it.
func (r *Run) Step(action string, args ...int64) error {
	a := r.actions[action]
	if a == nil || len(args) != len(a.bound) {
		return fmt.Errorf("no action %s of %d", action, len(args))
	}
	var errs []error
	for i, cs := range [][]checked{a.when, a.promised} {
		for _, c := range cs {
			if c.eval(frame(c.slots, args)) == 0 {
				errs = append(errs, fmt.Errorf("%s %s is false", action, []string{"when", "promise"}[i]+" "+c.name))
			}
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	type change struct {
		table *table
		at    [2]int64
		value int64
	}
	var changes []change
	for _, s := range a.sets {
		vars := frame(a.slots, args)
		if s.over == nil {
			var at [2]int64
			for i, e := range s.at {
				at[2-len(s.at)+i] = e(vars)
			}
			changes = append(changes, change{s.table, at, s.value(vars)})
			continue
		}
		put := func(at [2]int64) {
			was := s.table.get(at)
			if s.among != nil && was == 0 {
				return
			}
			if is := s.value(vars); is != was {
				changes = append(changes, change{s.table, at, is})
			}
		}
		for x := int64(1); x <= r.sizes[s.sorts[0]]; x++ {
			vars[s.over[0]] = x
			if len(s.over) == 1 {
				put([2]int64{0, x})
				continue
			}
			for y := int64(1); y <= r.sizes[s.sorts[1]]; y++ {
				vars[s.over[1]] = y
				put([2]int64{x, y})
			}
		}
	}
	for _, c := range changes {
		c.table.set(c.at, c.value)
	}
	return nil
}

// Holds returns an error if a clause of the invariant, or what follows from it, is false.
func (r *Run) Holds() error {
	var errs []error
	for _, c := range slices.Concat(r.holds, r.promise) {
		if c.eval(frame(c.slots, nil)) == 0 {
			errs = append(errs, fmt.Errorf("%s is false", c.name))
		}
	}
	return errors.Join(errs...)
}

func frame(slots int, args []int64) []int64 {
	vars := make([]int64, slots)
	copy(vars, args)
	return vars
}

// key returns where a table has a value: what has one argument is in one row.
func key(at []int64) (k [2]int64) {
	copy(k[2-len(at):], at)
	return k
}

func (t *table) get(at [2]int64) int64 {
	if at[0] < int64(len(t.rows)) {
		if row := t.rows[at[0]]; at[1] < int64(len(row)) {
			return row[at[1]] + t.first
		}
	}
	return t.first
}

func (t *table) set(at [2]int64, v int64) {
	for int64(len(t.rows)) <= at[0] {
		t.rows = append(t.rows, nil)
	}
	row := t.rows[at[0]]
	for int64(len(row)) <= at[1] {
		row = append(row, 0)
	}
	row[at[1]] = v - t.first
	t.rows[at[0]] = row
}

func literal(s string) (int64, bool) {
	switch s {
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
