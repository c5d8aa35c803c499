// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// kind is the kind of a contender.
type kind int

const (
	peer  kind = iota
	ours       // pawl
	floor      // the least that any lock costs in the store or the language
)

// metric is the figure by which contenders are compared.
type metric int

const (
	byTime metric = iota // the median time; less is better
	byRate               // operations per second; more is better
)

func (m metric) of(s *sample) float64 {
	if m == byRate {
		return rate(s)
	}
	return s.p50
}

// better reports whether a is better than b.
func (m metric) better(a, b float64) bool {
	if m == byRate {
		return a > b
	}
	return a < b
}

// cell is a contender in a workload, with a sample for each round.
type cell struct {
	contender string
	kind      kind
	rounds    []*sample
}

// err returns the first error of any round, or "". A cell with an error has no figures.
func (c *cell) err() string {
	for i, s := range c.rounds {
		if s.Error != "" {
			return fmt.Sprintf("error in round %d: %s", i+1, s.Error)
		}
	}
	return ""
}

// each returns the result of f for each round.
func (c *cell) each(f func(*sample) float64) (list []float64) {
	for _, s := range c.rounds {
		list = append(list, f(s))
	}
	return list
}

func (c *cell) median(f func(*sample) float64) float64 { return median(c.each(f)) }

// result is a workload with its cells.
type result struct {
	*workload
	cells []*cell
}

// best returns the best cell of a kind that has figures, or nil.
func (r *result) best(k kind) (best *cell) {
	for _, c := range r.cells {
		v := c.median(r.by.of)
		if c.kind == k && c.err() == "" && !math.IsNaN(v) && (best == nil || r.by.better(v, best.median(r.by.of))) {
			best = c
		}
	}
	return best
}

// against returns the median of the ratios of two cells within a round, or NaN. A disturbance of the machine that is longer than a
// cell affects both, so it hardly changes the ratio.
func (r *result) against(c, other *cell) float64 {
	if other == nil || other == c {
		return math.NaN()
	}
	a, b := c.each(r.by.of), other.each(r.by.of)
	for i := range min(len(a), len(b)) {
		a[i] /= b[i]
	}
	return median(a)
}

// columns are the columns of a workload's table. Empty columns are left out.
var columns = []struct {
	head string
	of   func(*result, *cell) string
}{
	{"a second", func(_ *result, c *cell) string { return number(c.median(rate)) }},
	{"p50", func(_ *result, c *cell) string { return period(c.median(p50)) }},
	{"p99", func(_ *result, c *cell) string { return period(c.median(func(s *sample) float64 { return s.p99 })) }},
	{"/ floor", func(r *result, c *cell) string { return decimals(r.against(c, r.best(floor)), 2) }},
	{"/ best peer", func(r *result, c *cell) string { return decimals(r.against(c, r.best(peer)), 2) }},
	{"Jain", func(_ *result, c *cell) string { return decimals(c.median(jain), 3) }},
	{"longest wait", func(_ *result, c *cell) string {
		return period(slices.Max(c.each(func(s *sample) float64 { return float64(s.Longest) })))
	}},
	{"client CPU", func(_ *result, c *cell) string {
		return period(c.median(func(s *sample) float64 { return perOp(int64(s.Client), s) }))
	}},
	{"server CPU", func(_ *result, c *cell) string {
		return period(c.median(func(s *sample) float64 { return perOp(int64(s.Server), s) }))
	}},
	{"requests", func(_ *result, c *cell) string {
		return decimals(c.median(func(s *sample) float64 { return perOp(s.Requests, s) }), 2)
	}},
}

// text returns the table for a terminal, and below it the errors. The first column is aligned to the left, the others to the right.
func (r *result) text() string {
	table := make([][]string, 1+len(r.cells)) // its rows
	add := func(head string, of func(*cell) string) {
		column := []string{head}
		for _, c := range r.cells {
			column = append(column, of(c))
		}
		if strings.Join(column[1:], "") == "" {
			return
		}
		for i, s := range column {
			table[i] = append(table[i], s)
		}
	}
	figure := func(head string, of func(*cell) string) {
		add(head, func(c *cell) string {
			if c.err() != "" {
				return ""
			}
			return of(c)
		})
	}
	notes, extras := "", map[string]bool{}
	add("", func(c *cell) string {
		for _, s := range c.rounds {
			for name := range s.Extra {
				extras[name] = true
			}
		}
		if e := c.err(); e != "" {
			notes += c.contender + ": " + e + "\n"
			return c.contender + ": error"
		}
		return c.contender
	})
	for _, col := range columns {
		figure(col.head, func(c *cell) string { return col.of(r, c) })
	}
	for _, name := range slices.Sorted(maps.Keys(extras)) {
		figure(name, func(c *cell) string {
			return decimals(c.median(func(s *sample) float64 {
				if v, ok := s.Extra[name]; ok {
					return v
				}
				return math.NaN()
			}), 2)
		})
	}
	return aligned(table) + notes
}

func aligned(table [][]string) string {
	width := make([]int, len(table[0]))
	for _, row := range table {
		for i, s := range row {
			width[i] = max(width[i], utf8.RuneCountInString(s))
		}
	}
	var b strings.Builder
	for _, row := range table {
		line := fmt.Sprintf("%-*s", width[0], row[0])
		for i, s := range row[1:] {
			line += fmt.Sprintf("  %*s", width[i+1], s)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// number shows a count or a rate.
func number(v float64) string {
	switch {
	case math.IsNaN(v), v == 0:
		return ""
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// period shows a time in nanoseconds with a suitable unit.
func period(ns float64) string {
	switch {
	case math.IsNaN(ns), ns == 0:
		return ""
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e4:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	case ns < 1e6:
		return fmt.Sprintf("%.0f µs", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
	return fmt.Sprintf("%.2f s", ns/1e9)
}

// decimals shows a ratio with n decimals.
func decimals(v float64, n int) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v != 0 && math.Abs(v) < 0.1:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.*f", n, v)
}
