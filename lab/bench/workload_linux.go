// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"time"
)

// workload is a task with the contenders that do it. Its cells run in turn, again and again.
type workload struct {
	id, title  string
	servers    []string // kinds, see start
	by         metric   // the figure that ratios compare
	load       load
	contenders []string
	special    func(*run, string, string) (*sample, error) // instead of the load
	once       bool                                        // one round is enough
	warm       time.Duration                               // time until all wait; at least an eighth of a cell
}

var (
	oneRedis  = []string{"redis"}
	fiveRedis = []string{"redis", "redis", "redis", "redis", "redis"}
	shared    = load{Seats: 64, Measure: waiting}
	processes = load{Procs: 8, Seats: 8, Measure: waiting}
	// A lock goes round between two clients: one always waits.
	passing    = load{Procs: 2, Seats: 1, Apart: true, Hold: 10 * time.Millisecond, Measure: handOff}
	contended  = load{Procs: 8, Seats: 1, Hold: time.Millisecond, Measure: waiting}
	rawRedis   = "SET NX PX + compare-delete"
	rawRedis5  = "5 × SET NX PX + compare-delete"
	rawZKName  = "create + children + delete"
	rawEtcdKey = "put under a lease + delete"
	pollers    = []string{"redislock, 100 ms", "redislock, 5 ms", "redsync", "redsync, 5 ms"}
	onePG      = []string{"postgres"}
	onPG       = []string{"pawl postgres", "advisory lock in a transaction", "advisory lock, 5 ms", "cirello.io/pglock"}
	rawPG      = "two updates of a row, the second async" // as pawl commits
	keeping    = []string{"pawl, KeepIdle", "pawl"}
	listeners  = []string{"rueidislock", "rueidislock, tuned"}
)

// alone returns a load of goroutines that each have their own lock.
func alone(seats int) load { return load{Seats: seats, Own: true, Measure: pair} }

func all(lists ...[]string) (sum []string) {
	for _, l := range lists {
		sum = append(sum, l...)
	}
	return sum
}

var workloads = []*workload{
	{id: "S1", title: "One goroutine, its own lock, Redis", servers: oneRedis, by: byTime, load: alone(1),
		contenders: all([]string{"pawl", rawRedis, "redislock, 100 ms", "redsync"}, listeners)},
	{id: "S2/64", title: "64 goroutines, each its own lock, Redis", servers: oneRedis, by: byRate, load: alone(64),
		contenders: all([]string{"pawl", rawRedis, "redislock, 100 ms", "redsync"}, listeners)},
	{id: "S3", title: "64 goroutines of one process, one lock, Redis", servers: oneRedis, by: byRate, load: shared,
		contenders: all([]string{"pawl"}, pollers, listeners)},
	{id: "S4", title: "8 processes of 8 goroutines, one lock, Redis", servers: oneRedis, by: byRate, load: processes,
		contenders: all([]string{"pawl"}, pollers, listeners)},
	{id: "S5/1", title: "Hand-off to another process, 1 waiter, Redis", servers: oneRedis, by: byTime, load: passing, warm: 200 * time.Millisecond,
		contenders: all([]string{"pawl", "PUBLISH to delivery"}, pollers, listeners)},
	{id: "S7", title: "100,000 leases of one client, TTL 30 s, Redis", servers: oneRedis, special: (*run).many, once: true,
		contenders: []string{"pawl"}},
	{id: "S8/1", title: "One goroutine, its own lock, five Redis servers", servers: fiveRedis, by: byTime, load: alone(1),
		contenders: []string{"pawl redlock", rawRedis5, "redsync N=5", "redsync N=5, 5 ms"}},
	{id: "S11/8", title: "8 processes, one lock for 1 ms, five Redis servers", servers: fiveRedis, by: byRate, load: contended, warm: 500 * time.Millisecond,
		contenders: []string{"pawl redlock", "redsync N=5"}},
	{id: "S9/zk/1", title: "One goroutine, its own lock, ZooKeeper", servers: []string{"zk"}, by: byTime, load: alone(1),
		contenders: []string{"pawl zk", rawZKName, "zk.Lock"}},
	{id: "S9/zk/pass", title: "Hand-off to another process, 1 waiter, ZooKeeper", servers: []string{"zk"}, by: byTime, load: passing, warm: 200 * time.Millisecond,
		contenders: []string{"pawl zk", "zk.Lock"}},
	{id: "S9/etcd/1", title: "One goroutine, its own lock, etcd", servers: []string{"etcd"}, by: byTime, load: alone(1),
		contenders: []string{"pawl etcd", rawEtcdKey, "concurrency.Mutex"}},
	{id: "S9/etcd/pass", title: "Hand-off to another process, 1 waiter, etcd", servers: []string{"etcd"}, by: byTime, load: passing, warm: 200 * time.Millisecond,
		contenders: []string{"pawl etcd", "concurrency.Mutex"}},
	{id: "S12/1", title: "One goroutine, its own lock, PostgreSQL", servers: onePG, by: byTime, load: alone(1),
		contenders: all([]string{"pawl postgres", rawPG}, onPG[1:])},
	{id: "S12/64", title: "64 goroutines, each its own lock, PostgreSQL", servers: onePG, by: byRate, load: alone(64), contenders: all([]string{"pawl postgres", rawPG}, onPG[1:])},
	{id: "S12/8x8", title: "8 processes of 8 goroutines, one lock, PostgreSQL", servers: onePG, by: byRate, load: processes, contenders: onPG},
	{id: "S12/pass", title: "Hand-off to another process, 1 waiter, PostgreSQL", servers: onePG, by: byTime, load: passing, warm: 200 * time.Millisecond,
		contenders: all([]string{"pawl postgres", "NOTIFY to delivery"}, onPG[1:])},
	{id: "S13/bursts", title: "Two clients, one lock, 20 times each in turn, KeepIdle, Redis", servers: oneRedis, by: byRate, special: (*run).bursts, contenders: keeping},
	{id: "S10", title: "A command under a lock on files, wall time", by: byTime, special: (*run).command,
		contenders: []string{"pawl run x -- true", "flock x true", "true"}},
}

// chosen returns the workloads that a list such as "S1,S2/64" names, or all for an empty list. It
// returns a name that no workload has as unknown.
func chosen(list string) (sum []*workload, unknown string) {
	if list == "" {
		return workloads, ""
	}
	for _, want := range strings.Split(list, ",") {
		found := false
		for _, w := range workloads {
			if w.id == want || strings.HasPrefix(w.id, want+"/") {
				sum, found = append(sum, w), true
			}
		}
		if !found {
			return nil, want
		}
	}
	return sum, ""
}
