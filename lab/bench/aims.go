// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
)

// aim is a goal for a workload. The table of verdicts also shows the goals that were missed.
type aim struct {
	workload string
	want     string
	got      func(*results) float64 // NaN if it was not measured
	limit    float64
	atLeast  bool // the limit is a minimum; otherwise it is a maximum
	show     func(float64) string
}

func times(v float64) string { return decimals(v, 2) + " ×" }
func plain(v float64) string { return decimals(v, 3) }

// least returns an aim for a ratio of at least limit, and most an aim for a ratio of at most limit.
func least(workload, want string, limit float64, got func(*results) float64) aim {
	return aim{workload, want, got, limit, true, times}
}

func most(workload, want string, limit float64, got func(*results) float64) aim {
	return aim{workload, want, got, limit, false, times}
}

func (a aim) shown(f func(float64) string) aim { a.show = f; return a }

// toFloor, toBest and toPeer compare our cell of a workload with the floor, the best peer, and named peers.
func toFloor(workload string, f func(*sample) float64) func(*results) float64 {
	return func(r *results) float64 { return compare(r.first(workload, ours), r.first(workload, floor), f) }
}

func toBest(workload string) func(*results) float64 {
	return func(r *results) float64 {
		return compare(r.first(workload, ours), r.best(workload, peer), r.by[workload].of)
	}
}

func lateToBest(workload string) func(*results) float64 {
	return func(r *results) float64 { return compare(r.first(workload, ours), r.best(workload, peer), p99) }
}

func toPeer(workload string, peers ...string) func(*results) float64 {
	return func(r *results) float64 {
		worst := math.NaN()
		for _, name := range peers {
			v := compare(r.first(workload, ours), r.get(workload, name), r.by[workload].of)
			if math.IsNaN(worst) || r.by[workload].better(worst, v) {
				worst = v
			}
		}
		return worst
	}
}

// figure returns a figure of our cell alone.
func figure(workload string, f func(*cell) float64) func(*results) float64 {
	return func(r *results) float64 {
		if c := r.first(workload, ours); c != nil {
			return f(c)
		}
		return math.NaN()
	}
}

func medianOf(f func(*sample) float64) func(*cell) float64 {
	return func(c *cell) float64 { return c.median(f) }
}

var aims = []aim{
	most("S1", "p50 ≤ 1.08 × the floor", 1.08, toFloor("S1", p50)),
	most("S1", "ahead of redislock and redsync", 1, toPeer("S1", "redislock, 100 ms", "redsync")),
	most("S1/apart", "p50 ≤ 1.25 × the floor", 1.25, toFloor("S1/apart", p50)),
	least("S2/64", "≥ 0.95 × the floor", 0.95, toFloor("S2/64", rate)),
	least("S2/64", "≥ 1.5 × rueidislock", 1.5, toPeer("S2/64", "rueidislock, tuned", "rueidislock")),
	least("S2/64", "≥ 3 × redsync and redislock", 3, toPeer("S2/64", "redsync", "redislock, 100 ms")),
	least("S2/512", "≥ 0.95 × the floor", 0.95, toFloor("S2/512", rate)),
	least("S2/512", "≥ 1.5 × rueidislock", 1.5, toPeer("S2/512", "rueidislock, tuned", "rueidislock")),
	least("S2/512", "≥ 3 × redsync and redislock", 3, toPeer("S2/512", "redsync", "redislock, 100 ms")),
	least("S2/aof", "≥ 0.9 × the floor", 0.9, toFloor("S2/aof", rate)),
	least("S3", "≥ 50 × the best peer", 50, toBest("S3")),
	least("S3", "Jain index ≥ 0.98", 0.98, figure("S3", medianOf(fairness))).shown(plain),
	least("S3", "≥ 0.2 × a FIFO of Go channels", 0.2, toFloor("S3", rate)),
	least("S4", "≥ 20 × the best peer", 20, toBest("S4")),
	least("S4", "Jain index between processes ≥ 0.95", 0.95, figure("S4", medianOf(fairness))).shown(plain),
	most("S4", "≤ 3 requests a grant to another process", 3, figure("S4", medianOf(perCrossing))).shown(plain),
	most("S4", "longest wait ≤ 50 ms", 50e6, figure("S4", (*cell).longest)).shown(period),
	most("S5/1", "p50 ≤ 1.25 × PUBLISH to delivery", 1.25, toFloor("S5/1", p50)),
	most("S5/1", "p99 ≤ 2 × PUBLISH to delivery", 2, toFloor("S5/1", p99)),
	most("S5/16", "p50 ≤ 1.25 × PUBLISH to delivery", 1.25, toFloor("S5/16", p50)),
	most("S5/16", "p99 ≤ 2 × PUBLISH to delivery", 2, toFloor("S5/16", p99)),
	most("S5/1000", "p50 ≤ 1.3 × that with 1 waiter", 1.3, func(r *results) float64 {
		return compare(r.first("S5/1000", ours), r.first("S5/1", ours), p50)
	}),
	most("S6", "TTL + 5 ms at the median", 5e6, figure("S6", func(c *cell) float64 { return c.quantile(0.5) })).shown(period),
	most("S6", "TTL + 20 ms at most", 20e6, figure("S6", (*cell).longest)).shown(period),
	most("S6/zk", "no later than zk.Lock", 1, toBest("S6/zk")),
	most("S7", "≤ 1 KiB a lease", 1024, figure("S7", medianOf(extra("bytes a lease")))).shown(number),
	// Renewals that are under way need some thousand goroutines.
	most("S7", "no goroutine a lease (≤ 5,000 in all)", 5000, figure("S7", medianOf(extra("more goroutines")))).shown(number),
	most("S7", "client ≤ 0.3 core", 0.3, figure("S7", medianOf(extra("client, cores")))).shown(plain),
	least("S7", "commands pipelined (≥ 2 a read of the server)", 2, figure("S7", medianOf(extra("requests a read of the server")))).shown(plain),
	most("S8/1", "p50 ≤ 1.25 × five parallel round trips", 1.25, toFloor("S8/1", p50)),
	most("S8/1", "ahead of redsync", 1, toPeer("S8/1", "redsync N=5", "redsync N=5, 5 ms")),
	least("S8/64", "≥ 3 × redsync", 3, toPeer("S8/64", "redsync N=5")),
	least("S8/2048", "≥ 1.5 × redsync", 1.5, toPeer("S8/2048", "redsync N=5")),
	least("S11/2", "ahead of redsync", 1, toBest("S11/2")),
	least("S11/2", "Jain index ≥ 0.95", 0.95, figure("S11/2", medianOf(fairness))).shown(plain),
	least("S11/8", "ahead of redsync", 1, toBest("S11/8")),
	least("S11/8", "Jain index ≥ 0.95", 0.95, figure("S11/8", medianOf(fairness))).shown(plain),
	least("S11/32", "ahead of redsync", 1, toBest("S11/32")),
	least("S11/32", "Jain index ≥ 0.95", 0.95, figure("S11/32", medianOf(fairness))).shown(plain),
	least("S11/64", "ahead of redsync", 1, toBest("S11/64")),
	least("S11/64", "Jain index ≥ 0.95", 0.95, figure("S11/64", medianOf(fairness))).shown(plain),
	most("S9/zk/1", "p50 ≤ 1.1 × the raw operations", 1.1, toFloor("S9/zk/1", p50)),
	most("S9/zk/1", "ahead of zk.Lock", 1, toBest("S9/zk/1")),
	least("S9/zk/64", "≥ 50 × zk.Lock", 50, toBest("S9/zk/64")),
	least("S9/zk/8x8", "ahead of zk.Lock", 1, toBest("S9/zk/8x8")),
	most("S9/zk/pass", "p50 ahead of zk.Lock", 1, toBest("S9/zk/pass")),
	most("S9/zk/pass", "p99 ahead of zk.Lock", 1, lateToBest("S9/zk/pass")),
	most("S9/etcd/1", "p50 ≤ 1.1 × the raw operations", 1.1, toFloor("S9/etcd/1", p50)),
	most("S9/etcd/1", "ahead of concurrency.Mutex", 1, toBest("S9/etcd/1")),
	least("S9/etcd/64", "≥ 50 × concurrency.Mutex", 50, toBest("S9/etcd/64")),
	least("S9/etcd/8x8", "ahead of concurrency.Mutex", 1, toBest("S9/etcd/8x8")),
	most("S9/etcd/pass", "p50 ahead of concurrency.Mutex", 1, toBest("S9/etcd/pass")),
	most("S9/etcd/pass", "p99 ahead of concurrency.Mutex", 1, lateToBest("S9/etcd/pass")),
	most("S12/1", "p50 ≤ 1.15 × two updates of a row, the second async", 1.15, toFloor("S12/1", p50)),
	most("S12/1", "ahead of an advisory lock in a transaction", 1, toPeer("S12/1", "advisory lock in a transaction")),
	most("S12/1", "ahead of cirello.io/pglock", 1, toPeer("S12/1", "cirello.io/pglock")),
	most("S12/async", "p50 ≤ 1.15 × two updates of a row", 1.15, toFloor("S12/async", p50)),
	most("S12/disk", "p50 ≤ 1.15 × two updates of a row, the second async", 1.15, toFloor("S12/disk", p50)),
	least("S12/64", "≥ 3 × the best peer", 3, toBest("S12/64")),
	least("S12/one", "≥ 50 × the best peer", 50, toBest("S12/one")),
	least("S12/8x8", "≥ 3 × the best peer", 3, toBest("S12/8x8")),
	most("S12/pass", "p50 ≤ 1.5 × NOTIFY to delivery", 1.5, toFloor("S12/pass", p50)),
	most("S13/alone", "p50 ≤ 1 µs", 1e3, figure("S13/alone", medianOf(p50))).shown(period),
	most("S13/alone", "no request", 0.01, figure("S13/alone", medianOf(func(s *sample) float64 { return perOp(s.Requests, s) }))).shown(plain),
	least("S13/bursts", "≥ 6.7 × without", 1/0.15, toPeer("S13/bursts", "pawl")),
	least("S13/turns", "≥ 0.83 × without", 1/1.2, toPeer("S13/turns", "pawl")),
	most("S13/first", "p50 ≤ 2.5 × a free lock", 2.5, toPeer("S13/first", "pawl")),
	most("S10", "≤ 2 × flock x true", 2, toPeer("S10", "flock x true")),
}

// verdicts returns a table with a row for each aim of the workloads that ran.
func (r *results) verdicts() *table {
	t := &table{head: []string{"", "aim", "measured", "verdict"}, left: true}
	for _, a := range aims {
		if _, run := r.by[a.workload]; !run {
			continue
		}
		v := a.got(r)
		row := []string{a.workload, a.want, "", "not measured"}
		if !math.IsNaN(v) {
			row[2], row[3] = a.show(v), "met"
			if a.atLeast && v < a.limit || !a.atLeast && v > a.limit {
				row[3] = "missed"
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// summary counts the verdicts.
func summary(t *table) string {
	n := map[string]int{}
	for _, row := range t.rows {
		n[row[3]]++
	}
	return fmt.Sprintf("%d aims met, %d missed, %d not measured", n["met"], n["missed"], n["not measured"])
}
