// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"time"
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

// sample is the result of one run of a cell.
type sample struct {
	Ops     int64         // operations in the time that counts
	All     int64         // all operations, also before and after that time
	Elapsed time.Duration // the time that counts
	Times   hist          // the times that load.Measure names, in nanoseconds
	Longest int64         // the longest wait, in nanoseconds; a wait without success counts too
	Shares  []int64       // acquisitions of each goroutine, or of each process
	GaveUp  int64         // waits that a library ended by itself
	Client  time.Duration // processor time of the clients
	Error   string        // if not empty, ignore the other fields

	Server   time.Duration      // processor time of the servers
	Requests int64              // requests to Redis
	Commands int64              // commands that Redis ran, also for scripts
	Crossed  int64              // grants to another process than the grant before
	Extra    map[string]float64 // figures of a single workload
}

// add adds the sample of another goroutine or process. It leaves out Shares.
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

// cell is a contender in a workload, with a sample for each round.
type cell struct {
	workload  string
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

func rate(s *sample) float64 { return float64(s.Ops) / s.Elapsed.Seconds() }
func p50(s *sample) float64  { return s.Times.quantile(0.5) }

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

// quantile returns a quantile of the times of all rounds together.
func (c *cell) quantile(q float64) float64 {
	var sum hist
	for _, s := range c.rounds {
		sum.merge(&s.Times)
	}
	return sum.quantile(q)
}

// longest returns the longest wait of all rounds, in nanoseconds.
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

// results are the cells of all workloads.
type results struct {
	cells []*cell
	by    map[string]metric // by workload
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

// first returns the first cell of a kind that has figures, or nil.
func (r *results) first(workload string, k kind) *cell {
	i := slices.IndexFunc(r.cells, func(c *cell) bool { return c.workload == workload && c.kind == k && c.err() == "" })
	if i < 0 {
		return nil
	}
	return r.cells[i]
}

// compare returns the ratio of f in two cells, or NaN if one cell has no figures.
func compare(a, b *cell, f func(*sample) float64) float64 {
	if a == nil || b == nil {
		return math.NaN()
	}
	return ratio(a.each(f), b.each(f))
}
