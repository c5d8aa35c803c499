// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"math"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata anew")

// made returns a cell of made-up rounds, each with a rate and one duration.
func made(contender string, k kind, perSecond ...int64) *cell {
	c := &cell{contender: contender, kind: k}
	for i, n := range perSecond {
		s := &sample{Ops: n, All: n, Elapsed: time.Second, Longest: 1e9 / n * 3, Client: time.Duration(n) * 40 * time.Microsecond,
			Server: time.Second, Requests: 2 * n, Shares: []int64{n / 2, n - n/2}, Crossed: n / 2}
		for range 100 {
			s.Times = append(s.Times, 1e9/n)
		}
		s.Times = append(s.Times, 1e9/n*int64(i+2), 1e9/n*int64(i+2))
		s.settle()
		c.rounds = append(c.rounds, s)
	}
	return c
}

// TestText: a cell that was wrong in one round shows that and nothing else, and is not the peer that others are
// compared with. The ratios are those within a round: in the third, the machine was ten times as slow.
func TestText(t *testing.T) {
	broken := made("redislock, 5 ms", peer, 5000, 5000, 5000)
	broken.rounds[1].Error = "two held the lock at the same time, 7 times"
	r := &result{&workload{by: byRate}, []*cell{
		made("pawl", ours, 120000, 100000, 11000),
		made("FIFO of Go channels", floor, 480000, 500000, 50000),
		made("redsync | old", peer, 2500, 2400, 100),
		broken,
	}}
	r.cells[0].rounds[2].Extra = map[string]float64{"bytes a lease": 881}
	const file = "testdata/report.txt"
	got := r.text()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s\n(%v; go test ./lab/bench -update writes it anew)", file, got, want, err)
	}
}

func TestShown(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{period(750), "750 ns"}, {period(1500), "1.5 µs"}, {period(143e3), "143 µs"}, {period(2.5e6), "2.50 ms"}, {period(6e9), "6.00 s"},
		{number(364), "364"}, {number(73100), "73.1k"}, {number(1.14e6), "1.14M"},
		{decimals(1.1, 2), "1.10"}, {decimals(0.00087, 2), "0.00087"}, {decimals(650, 2), "650"}, {decimals(0, 2), "0.00"},
		{decimals(math.NaN(), 2) + number(math.NaN()) + period(math.NaN()), ""},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestFigures(t *testing.T) {
	nan := math.NaN()
	index := func(shares ...int64) float64 { return jain(&sample{Shares: shares, Crossed: 1}) }
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"median of three", median([]float64{3, 1, 2}), 2},
		{"median of four", median([]float64{4, 1, 2, 3}), 2.5},
		{"median of one round", median([]float64{nan, 7, nan}), 7},
		{"median of nothing", median(nil), nan},
		{"quantile of nothing", quantile(nil, 0.5), nan},
		{"quantile 0", quantile([]int64{3, 5}, 0), 3},
		{"quantile 0.5", quantile([]int64{1, 2, 3, 4}, 0.5), 2},
		{"quantile 0.99", quantile([]int64{1, 2, 3, 4}, 0.99), 4},
		{"Jain's index of equal shares", index(5, 5, 5, 5), 1},
		{"Jain's index of one who has all", index(8, 0, 0, 0), 0.25},
		{"Jain's index of 1 and 3", index(1, 3), 0.8},
		{"Jain's index of nothing", index(0, 0), nan},
	} {
		if math.Abs(c.got-c.want) > 1e-9 || math.IsNaN(c.got) != math.IsNaN(c.want) {
			t.Errorf("%s = %v, want %v", c.what, c.got, c.want)
		}
	}
}
