// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"time"
)

// sample is the result of one run of a cell.
type sample struct {
	Ops     int64         // operations in the time that counts
	All     int64         // all operations, also before and after that time
	Elapsed time.Duration // the time that counts
	Times   []int64       // the times that load.Measure names, in nanoseconds, until settle
	Longest int64         // the longest wait, in nanoseconds; a wait without success counts too
	Shares  []int64       // acquisitions of each goroutine, or of each process
	Client  time.Duration // processor time of the clients
	Error   string        // if not empty, ignore the other fields

	Server   time.Duration      // processor time of the servers
	Requests int64              // requests to Redis
	Crossed  int64              // grants to another process than the grant before
	Extra    map[string]float64 // figures of a single workload

	p50, p99 float64 // of Times
}

// add adds the sample of another goroutine or process. It leaves out Shares.
func (s *sample) add(p *sample) {
	s.Ops += p.Ops
	s.All += p.All
	s.Times = append(s.Times, p.Times...)
	s.Longest = max(s.Longest, p.Longest)
	s.Client += p.Client
	if s.Error == "" {
		s.Error = p.Error
	}
}

// settle keeps two quantiles of the times instead of all of them.
func (s *sample) settle() {
	slices.Sort(s.Times)
	s.p50, s.p99, s.Times = quantile(s.Times, 0.5), quantile(s.Times, 0.99), nil
}

// quantile returns the smallest value of a sorted list such that a share q of all values is at most as great, or NaN
// if there are none.
func quantile(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return float64(sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)])
}

func rate(s *sample) float64 { return float64(s.Ops) / s.Elapsed.Seconds() }
func p50(s *sample) float64  { return s.p50 }

// perOp returns n for each operation, or NaN if n is 0: then nobody has counted.
func perOp(n int64, s *sample) float64 {
	if n == 0 || s.All == 0 {
		return math.NaN()
	}
	return float64(n) / float64(s.All)
}

// jain returns Jain's index of fairness if several participants want the same lock, and NaN otherwise. It is 1 if all n
// shares are equal, and 1/n if one has everything. See R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
func jain(s *sample) float64 {
	var sum, squares float64
	for _, n := range s.Shares {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if len(s.Shares) < 2 || s.Crossed == 0 || squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(s.Shares)) * squares)
}

// median returns the median of the values other than NaN, or NaN if there are none.
func median(list []float64) float64 {
	l := slices.DeleteFunc(slices.Clone(list), math.IsNaN)
	if len(l) == 0 {
		return math.NaN()
	}
	slices.Sort(l)
	if n := len(l); n%2 == 0 {
		return (l[n/2-1] + l[n/2]) / 2
	}
	return l[len(l)/2]
}
