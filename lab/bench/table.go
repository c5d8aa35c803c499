// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is text in columns. The first column is aligned to the left, the others to the right.
type table struct {
	head []string
	rows [][]string
	left bool // align all columns to the left

	notes []string // lines below the table
}

// text returns the table for a terminal.
func (t *table) text() string {
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, s := range row {
			width[i] = max(width[i], utf8.RuneCountInString(s))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{t.head}, t.rows...) {
		var line strings.Builder
		for i, s := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
			if i == 0 || t.left {
				line.WriteString(s + pad + "  ")
			} else {
				line.WriteString(pad + s + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	for _, n := range t.notes {
		b.WriteString(n + "\n")
	}
	return b.String()
}

// column is a column of a workload's table. Empty columns are left out.
type column struct {
	head string
	of   func(*results, *cell) string
}

var columns = []column{
	{"a second", func(_ *results, c *cell) string { return number(c.median(nonzero(rate))) }},
	{"p50", func(_ *results, c *cell) string { return period(c.median(p50)) }},
	{"p99", func(_ *results, c *cell) string { return period(c.quantile(0.99)) }},
	{"/ floor", func(r *results, c *cell) string { return against(r, c, r.first(c.workload, floor)) }},
	{"/ best peer", func(r *results, c *cell) string { return against(r, c, r.best(c.workload, peer)) }},
	{"Jain", func(_ *results, c *cell) string { return decimals(c.median(fairness), 3) }},
	{"longest wait", func(_ *results, c *cell) string { return period(zeroIsNone(c.longest())) }},
	{"client CPU", func(_ *results, c *cell) string {
		return period(c.median(func(s *sample) float64 { return perOp(int64(s.Client), s) }))
	}},
	{"server CPU", func(_ *results, c *cell) string {
		return period(zeroIsNone(c.median(func(s *sample) float64 { return perOp(int64(s.Server), s) })))
	}},
	{"requests", func(_ *results, c *cell) string {
		return decimals(zeroIsNone(c.median(func(s *sample) float64 { return perOp(s.Requests, s) })), 2)
	}},
	{"commands", func(_ *results, c *cell) string {
		return decimals(zeroIsNone(c.median(func(s *sample) float64 { return perOp(s.Commands, s) })), 2)
	}},
	{"requests a crossing", func(_ *results, c *cell) string { return decimals(c.median(perCrossing), 2) }},
	{"gave up", func(_ *results, c *cell) string {
		return number(zeroIsNone(c.median(func(s *sample) float64 { return float64(s.GaveUp) })))
	}},
}

// fairness returns Jain's index if several participants want the same lock, and NaN otherwise.
func fairness(s *sample) float64 {
	if len(s.Shares) < 2 || s.Crossed == 0 {
		return math.NaN()
	}
	return jain(s.Shares)
}

// perCrossing returns the number of requests for each grant that goes to another process than
// the grant before.
func perCrossing(s *sample) float64 {
	if s.Crossed < 2 || s.Requests == 0 {
		return math.NaN()
	}
	return float64(s.Requests) / float64(s.Crossed)
}

func nonzero(f func(*sample) float64) func(*sample) float64 {
	return func(s *sample) float64 {
		if s.Ops == 0 {
			return math.NaN()
		}
		return f(s)
	}
}

func zeroIsNone(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

func against(r *results, c, other *cell) string {
	if other == nil || other == c {
		return ""
	}
	return decimals(compare(c, other, r.by[c.workload].of), 2)
}

// tableOf returns the table of one workload.
func (r *results) tableOf(workload string) *table {
	t := &table{head: []string{""}}
	var cells []*cell
	for _, c := range r.cells {
		if c.workload == workload {
			cells = append(cells, c)
			t.rows = append(t.rows, []string{c.contender})
		}
	}
	for _, col := range append(slices.Clone(columns), extras(cells)...) {
		var list []string
		empty := true
		for _, c := range cells {
			s := ""
			if c.err() == "" {
				s = col.of(r, c)
			}
			list = append(list, s)
			empty = empty && s == ""
		}
		if empty {
			continue
		}
		t.head = append(t.head, col.head)
		for i, s := range list {
			t.rows[i] = append(t.rows[i], s)
		}
	}
	for i, c := range cells {
		if e := c.err(); e != "" {
			t.rows[i][0] += ": error"
			t.notes = append(t.notes, c.contender+": "+e)
		}
	}
	return t
}

// extras returns the columns for the figures in Extra.
func extras(cells []*cell) (list []column) {
	names := map[string]bool{}
	for _, c := range cells {
		for _, s := range c.rounds {
			for name := range s.Extra {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, column{name, func(_ *results, c *cell) string { return decimals(c.median(extra(name)), 2) }})
	}
	return list
}

func extra(name string) func(*sample) float64 {
	return func(s *sample) float64 {
		if v, ok := s.Extra[name]; ok {
			return v
		}
		return math.NaN()
	}
}
