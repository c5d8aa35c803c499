// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// kind is what a contender is.
type kind int

const (
	peer  kind = iota
	ours       // pawl
	floor      // what the store or the language costs without a lock
)

// metric is what contenders are compared by.
type metric int

const (
	byTime metric = iota // the median time, of which less is better
	byRate               // operations a second
)

// sample is what one run of a cell has found.
type sample struct {
	Ops     int64         // in the time that counts
	All     int64         // with those before and after it
	Elapsed time.Duration // the time that counts
	Times   hist          // what load.Measure says, in nanoseconds
	Longest int64         // wait, in nanoseconds; a wait in vain counts too
	Shares  []int64       // acquisitions of each goroutine, or of each process
	GaveUp  int64         // waits that a library ended by itself
	Client  time.Duration // processor time
	Error   string        // if not empty, nothing else is to be trusted

	Server   time.Duration      // processor time
	Requests int64              // to Redis
	Commands int64              // of Redis, also those within scripts
	Crossed  int64              // grants to another process than the one before
	Extra    map[string]float64 // what only one workload knows
}

// add adds what another goroutine or process has found, but for Shares.
func (s *sample) add(p *sample) {
	s.Ops += p.Ops
	s.All += p.All
	s.Times.merge(&p.Times)
	s.Longest = max(s.Longest, p.Longest)
	s.GaveUp += p.GaveUp
	s.Client += p.Client
	if s.Error == "" {
		s.Error = p.Error
	}
}

// cell is one contender in one workload, with a sample for each round.
type cell struct {
	workload  string
	contender string
	kind      kind
	rounds    []*sample
}

// err returns the first error of any round: then there are no figures.
func (c *cell) err() string {
	for i, s := range c.rounds {
		if s.Error != "" {
			return fmt.Sprintf("error in round %d: %s", i+1, s.Error)
		}
	}
	return ""
}

// each returns what f finds in the rounds.
func (c *cell) each(f func(*sample) float64) (list []float64) {
	for _, s := range c.rounds {
		list = append(list, f(s))
	}
	return list
}

func (c *cell) median(f func(*sample) float64) float64 { return median(c.each(f)) }

func rate(s *sample) float64 { return float64(s.Ops) / s.Elapsed.Seconds() }
func p50(s *sample) float64  { return s.Times.quantile(0.5) }
func p99(s *sample) float64  { return s.Times.quantile(0.99) }

func (m metric) of(s *sample) float64 {
	if m == byRate {
		return rate(s)
	}
	return p50(s)
}

// better reports whether a is better than b.
func (m metric) better(a, b float64) bool {
	if m == byRate {
		return a > b
	}
	return a < b
}

// quantile is over all rounds together.
func (c *cell) quantile(q float64) float64 {
	var sum hist
	for _, s := range c.rounds {
		sum.merge(&s.Times)
	}
	return sum.quantile(q)
}

// longest is over all rounds, in nanoseconds.
func (c *cell) longest() (d float64) {
	for _, s := range c.rounds {
		d = max(d, float64(s.Longest))
	}
	return d
}

func perOp(n int64, s *sample) float64 {
	if s.All == 0 {
		return math.NaN()
	}
	return float64(n) / float64(s.All)
}

// results are all cells.
type results struct {
	cells []*cell
	by    map[string]metric // of workloads
}

// get returns a cell that has figures, or nil.
func (r *results) get(workload, contender string) *cell {
	for _, c := range r.cells {
		if c.workload == workload && c.contender == contender && c.err() == "" && len(c.rounds) > 0 {
			return c
		}
	}
	return nil
}

// best returns the best cell of a kind, or nil.
func (r *results) best(workload string, k kind) (best *cell) {
	m := r.by[workload]
	for _, c := range r.cells {
		if c.workload != workload || c.kind != k || c.err() != "" {
			continue
		}
		v := c.median(m.of)
		if !math.IsNaN(v) && (best == nil || m.better(v, best.median(m.of))) {
			best = c
		}
	}
	return best
}

// first returns the first cell of a kind that has figures, or nil: the floor that a
// workload is compared with comes before others.
func (r *results) first(workload string, k kind) *cell {
	i := slices.IndexFunc(r.cells, func(c *cell) bool { return c.workload == workload && c.kind == k && c.err() == "" })
	if i < 0 {
		return nil
	}
	return r.cells[i]
}

// compare returns the ratio of f in two cells, NaN if one has no figures.
func compare(a, b *cell, f func(*sample) float64) float64 {
	if a == nil || b == nil {
		return math.NaN()
	}
	return ratio(a.each(f), b.each(f))
}
