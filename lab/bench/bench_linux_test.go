// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(taskEnv); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(counterEnv); text != "" {
		c := new(counter)
		err := json.Unmarshal([]byte(text), c)
		if err == nil {
			err = c.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestEveryContenderIsKnown: a name in a workload that leads nowhere would be an error
// at the end of ten minutes.
func TestEveryContenderIsKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range workloads {
		if seen[w.id] {
			t.Errorf("two workloads %s", w.id)
		}
		seen[w.id] = true
		for _, name := range w.contenders {
			if contenders[name] == nil {
				t.Errorf("%s: no contender %q", w.id, name)
			}
		}
	}
	if all, unknown := chosen("S2,S9/zk"); len(all) != 3 || unknown != "" {
		t.Errorf("S2,S9/zk are %d workloads, %q", len(all), unknown)
	}
	if _, unknown := chosen("S1,S99"); unknown != "S99" {
		t.Errorf("unknown is %q", unknown)
	}
}

// TestSmoke runs one short round of S1, and its report.
func TestSmoke(t *testing.T) {
	todo, _ := chosen("S1")
	f := &flags{rounds: 1, cell: 100 * time.Millisecond}
	results, _, err := f.measure(todo)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range results[0].cells {
		if c.err() != "" {
			t.Errorf("%s: %s", c.contender, c.err())
			continue
		}
		s := c.rounds[0]
		if s.Ops < 1 || s.All < s.Ops || s.Longest <= 0 {
			t.Errorf("%s: %d operations, %d in all, longest %d", c.contender, s.Ops, s.All, s.Longest)
		}
		if n := perOp(s.Requests, s); n < 1.5 || n > 6 {
			t.Errorf("%s: %v requests for acquire and release", c.contender, n)
		}
	}
	if text := results[0].text(); !strings.Contains(text, "/ best peer") || !strings.Contains(text, "redislock, 100 ms") {
		t.Errorf("the report lacks a column or a peer:\n%s", text)
	}
}

// TestProcesses: a lock that several processes want is measured, and a hand-off counts
// only between them.
func TestProcesses(t *testing.T) {
	r := testRun(t)
	for _, l := range []load{{Procs: 2, Seats: 2, Measure: waiting}, passing} {
		r.workload = &workload{id: "T", load: l}
		s := r.measure("pawl", 0)
		if s.Error != "" {
			t.Fatal(s.Error)
		}
		if s.Ops == 0 || len(s.Shares) != 2 || s.Crossed == 0 || s.Requests == 0 || !(s.p50 > 0) {
			t.Errorf("%+v", s)
		}
	}
}

// TestKept: a kept lease costs requests only when the other client wants the lock.
func TestKept(t *testing.T) {
	r := testRun(t)
	for _, c := range []struct {
		contender   string
		least, most float64 // requests for acquire and release
	}{{"pawl", 1.9, 2.5}, {"pawl, KeepIdle", 0.01, 0.5}} {
		r.workload = &workload{id: "T", special: (*run).bursts}
		s := r.measure(c.contender, 0)
		if n := perOp(s.Requests, s); s.Error != "" || s.Ops == 0 || n < c.least || n > c.most {
			t.Errorf("%s: %v requests a lease in bursts of 20: %+v", c.contender, n, s)
		}
	}
}

// TestBrokenLocksAreSeen: a lock that excludes nobody, and one whose tokens stand still,
// have no figures.
func TestBrokenLocksAreSeen(t *testing.T) {
	r := testRun(t)
	for _, c := range []struct {
		contender string
		load      load
		want      string
	}{
		{"open door", load{Seats: 4, Hold: time.Millisecond, Measure: waiting}, "two held the lock at the same time"},
		{"open door", load{Procs: 2, Seats: 1, Hold: time.Millisecond, Measure: waiting}, "two held the lock at the same time"},
		{"one token", load{Seats: 1, Hold: time.Millisecond, Measure: waiting}, "tokens did not grow"},
		{"one token", load{Seats: 1, Own: true, Hold: time.Millisecond, Measure: pair}, "a token did not grow"},
	} {
		r.workload = &workload{id: "T", load: c.load}
		if s := r.measure(c.contender, 0); !strings.Contains(s.Error, c.want) {
			t.Errorf("%s: error %q, want %q", c.contender, s.Error, c.want)
		}
	}
}

// fake is a lock that everybody gets.
type fake struct{ token uint64 }

func init() { // also in the processes that tests start
	enlist(
		&contender{name: "open door", open: func(context.Context, *world, seat) (locker, error) { return fake{0}, nil }},
		&contender{name: "one token", open: func(context.Context, *world, seat) (locker, error) { return fake{7}, nil }},
	)
}

func (f fake) lock(context.Context, string) (func() error, uint64, error) {
	return func() error { return nil }, f.token, nil
}

func (f fake) close() {}

func testRun(t *testing.T) *run {
	t.Helper()
	w, err := newWorld(oneRedis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	return &run{world: w, dir: t.TempDir(), cell: 300 * time.Millisecond}
}

// TestInfo reads what Redis tells, and does not count what scripts call.
func TestInfo(t *testing.T) {
	before, after := counts{}, counts{}
	before.add("# Commandstats\r\ncmdstat_evalsha:calls=10,usec=1\r\n")
	after.add("cmdstat_evalsha:calls=14,usec=1\r\ncmdstat_get:calls=4,usec=2\r\ncmdstat_set:calls=3,usec=2\r\ncmdstat_info:calls=2\r\n")
	if alone, with := after.since(before, nil), after.since(before, []string{"set"}); alone != 4 || with != 7 {
		t.Errorf("%d requests, and %d with set; want 4, 7", alone, with)
	}
}
