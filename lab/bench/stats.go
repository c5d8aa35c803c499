// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/bits"
	"slices"
)

// hist is a histogram of durations in nanoseconds, with buckets less than one percent wide. It
// takes little memory for millions of durations, and histograms of several processes can be
// added.
type hist struct {
	Counts map[int]int64 `json:"counts"`
	Max    int64         `json:"max"`
	dense  []int64       // counts by bucket, until pack
}

const (
	fine    = 7 // 2^fine buckets for each power of two
	buckets = (64 - fine) << fine
)

// bucket returns the bucket of v. Each value below 2^(fine+1) has its own bucket.
func bucket(v int64) int {
	u := uint64(max(v, 0))
	shift := max(bits.Len64(u)-fine-1, 0)
	return shift<<fine + int(u>>shift)
}

// middle returns the value in the middle of a bucket.
func middle(b int) float64 {
	shift := max(b>>fine-1, 0)
	low := int64(b-shift<<fine) << shift
	return float64(low) + float64(int64(1)<<shift-1)/2
}

func (h *hist) add(v int64) {
	if h.dense == nil {
		h.dense = make([]int64, buckets)
	}
	h.dense[bucket(v)]++
	h.Max = max(h.Max, v)
}

// pack moves the counts of add to Counts, for JSON and merge.
func (h *hist) pack() {
	if h.Counts == nil {
		h.Counts = map[int]int64{}
	}
	for b, n := range h.dense {
		if n > 0 {
			h.Counts[b] += n
		}
	}
	h.dense = nil
}

// merge adds o to h. Both must be packed.
func (h *hist) merge(o *hist) {
	if h.Counts == nil {
		h.Counts = map[int]int64{}
	}
	for b, n := range o.Counts {
		h.Counts[b] += n
	}
	h.Max = max(h.Max, o.Max)
}

// quantile returns the smallest value such that a share q of all values is at most as great, or
// NaN if there are none. h must be packed.
func (h *hist) quantile(q float64) float64 {
	var total int64
	order := make([]int, 0, len(h.Counts))
	for b, n := range h.Counts {
		order = append(order, b)
		total += n
	}
	slices.Sort(order)
	rank := max(int64(math.Ceil(q*float64(total))), 1)
	for _, b := range order {
		if rank -= h.Counts[b]; rank <= 0 {
			return middle(b)
		}
	}
	return math.NaN()
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

// jain returns Jain's index of fairness: 1 if all n shares are equal, 1/n if one has everything.
// See R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
func jain(shares []int64) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// ratio returns the median of a[i]/b[i], where i is a round. A disturbance of the machine that is
// longer than a cell affects both a[i] and b[i], so it hardly changes the ratio.
func ratio(a, b []float64) float64 {
	var each []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			each = append(each, a[i]/b[i])
		}
	}
	return median(each)
}
