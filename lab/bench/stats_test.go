// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		list []float64
		want float64
	}{
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 2, 3}, 2.5},
		{[]float64{nan, 7, nan}, 7},
		{nil, nan},
	} {
		if got := median(c.list); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("median(%v) = %v, want %v", c.list, got, c.want)
		}
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []int64
		want   float64
	}{
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{8, 0, 0, 0}, 0.25},
		{[]int64{1, 3}, 0.8},
	} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("jain(%v) = %v, want %v", c.shares, got, c.want)
		}
	}
	if !math.IsNaN(jain([]int64{0, 0})) {
		t.Error("shares of nothing are fair or unfair")
	}
}

func TestRatioIsThatOfRounds(t *testing.T) {
	// The machine was ten times as slow in the second round.
	if got := ratio([]float64{2, 20, 2}, []float64{1, 10, 1}); got != 2 {
		t.Errorf("ratio = %v, want 2", got)
	}
	if !math.IsNaN(ratio(nil, []float64{1})) {
		t.Error("a ratio of nothing")
	}
}

// TestHistogram: its quantiles are those of the list, to a percent, also after a
// way through JSON in two halves.
func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var list []int64
	var halves [2]hist
	for i := range 20000 {
		v := int64(math.Exp(r.Float64() * 25))
		list = append(list, v)
		halves[i%2].add(v)
	}
	var sum hist
	for i := range halves {
		halves[i].pack()
		b, err := json.Marshal(&halves[i])
		if err != nil {
			t.Fatal(err)
		}
		var h hist
		if err := json.Unmarshal(b, &h); err != nil {
			t.Fatal(err)
		}
		sum.merge(&h)
	}
	slices.Sort(list)
	for _, q := range []float64{0.001, 0.5, 0.99, 1} {
		want := float64(list[max(int(math.Ceil(q*float64(len(list))))-1, 0)])
		if got := sum.quantile(q); math.Abs(got-want) > want/100 {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if sum.Max != list[len(list)-1] {
		t.Errorf("max = %d, want %d", sum.Max, list[len(list)-1])
	}
	for _, v := range []int64{0, 1, 127, 128, 255, 256, 1 << 40, math.MaxInt64} {
		if b := bucket(v); b < 0 || b >= buckets || math.Abs(middle(b)-float64(v)) > float64(v)/100 {
			t.Errorf("%d is in bucket %d, whose middle is %v", v, b, middle(b))
		}
	}
	if !math.IsNaN(new(hist).quantile(0.5)) {
		t.Error("the median of nothing")
	}
}
