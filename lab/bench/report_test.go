// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata anew")

// made returns a cell of made-up rounds, each with a rate and one duration.
func made(workload, contender string, k kind, perSecond ...int64) *cell {
	c := &cell{workload: workload, contender: contender, kind: k}
	for i, n := range perSecond {
		s := &sample{Ops: n, All: n, Elapsed: time.Second, Longest: 1e9 / n * 3, Client: time.Duration(n) * 40 * time.Microsecond,
			Server: time.Second, Requests: 2 * n, Commands: 5 * n, Shares: []int64{n / 2, n - n/2}, Crossed: n / 2}
		for range 100 {
			s.Times.add(1e9 / n)
		}
		s.Times.add(1e9 / n * int64(i+2))
		s.Times.add(1e9 / n * int64(i+2))
		s.Times.pack()
		c.rounds = append(c.rounds, s)
	}
	return c
}

func example() *report {
	broken := made("S3", "redislock, 5 ms", peer, 500, 500, 500)
	broken.rounds[1].Error = "two held the lock at the same time, 7 times"
	extra := made("S3", "redsync | old", peer, 2500, 2400, 100)
	extra.rounds[0].GaveUp, extra.rounds[1].GaveUp, extra.rounds[2].GaveUp = 3, 4, 5
	return &report{
		results: results{by: map[string]metric{"S3": byRate}, cells: []*cell{
			made("S3", "pawl", ours, 120000, 100000, 11000),
			made("S3", "FIFO of Go channels", floor, 480000, 500000, 50000),
			extra,
			broken,
		}},
		order: []section{{"S3", "64 goroutines of one process, one lock, Redis"}},
		facts: []string{"2 processors", "Redis 7.0.15"},
	}
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s\n(go test ./lab/bench -update writes it anew)", file, got, want)
	}
}

func TestText(t *testing.T) { golden(t, "report.txt", example().text()) }

// TestErrorIsNoNumber: a cell that was wrong in one round shows that and nothing else,
// and is not the peer that others are compared with.
func TestErrorIsNoNumber(t *testing.T) {
	r := example()
	table := r.tableOf("S3")
	if row := table.rows[3]; row[0] != "redislock, 5 ms: error" || strings.Join(row[1:], "") != "" {
		t.Errorf("row = %q", row)
	}
	if notes := strings.Join(table.notes, "\n"); notes != "redislock, 5 ms: error in round 2: two held the lock at the same time, 7 times" {
		t.Errorf("notes = %q", notes)
	}
	r.cells[2].rounds[0].Error = "x"
	if r.best("S3", peer) != nil {
		t.Error("a broken cell is the best peer")
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
