// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/stage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var r run
	var stores, only string
	flag.StringVar(&stores, "store", "", "what to run on, with commas, or all: "+strings.Join(stage.Names(), ", "))
	flag.DurationVar(&r.length, "for", time.Minute, "how long faults happen")
	flag.Uint64Var(&r.seed, "seed", uint64(time.Now().UnixNano()), "of what is drawn")
	flag.IntVar(&r.workers, "workers", 4, "processes")
	flag.IntVar(&r.lanes, "lanes", 3, "goroutines of each of them")
	flag.DurationVar(&r.gap, "gap", 2*time.Second, "the longest time between two faults of the servers")
	flag.DurationVar(&r.ttl, "ttl", 2*time.Second, "TTL")
	flag.DurationVar(&r.maxTTL, "max-ttl", 3*time.Second, "MaxTTL, on Redis")
	flag.DurationVar(&r.idle, "idle", 6*time.Second, "how long a name may be free while somebody waits for it")
	flag.DurationVar(&r.calm, "calm", 12*time.Second, "how long the clients go on after the last fault, beyond what the store may be closed for; more than -idle")
	flag.BoolVar(&r.beyond, "beyond", false, "faults too that break an assumption of docs/guarantees")
	flag.BoolVar(&r.clocks, "clocks", false, "set the clocks of servers too, by libfaketime")
	flag.StringVar(&only, "only", "", "kinds of faults, with semicolons, or none")
	flag.StringVar(&r.mutant, "mutant", "", "take out one protection: "+strings.Join(mutantNames(), ", "))
	dir := flag.String("dir", "", "where to write; a folder of its own unless set")
	flag.Parse()
	if only != "" {
		r.only = strings.Split(only, ";")
	}
	if r.mutant != "" {
		stores, r.only = r.forMutant(stores, r.only)
	}
	stores = cmp.Or(stores, "redis")
	if stores == "all" {
		stores = strings.Join(stage.Names(), ",")
	}
	bad, err := runAll(ctx, r, strings.Split(stores, ","), *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	if bad {
		os.Exit(1)
	}
}

// runAll makes a run on each of the stores, and prints the table of the results.
func runAll(ctx context.Context, proto run, stores []string, dir string) (bad bool, err error) {
	temp := dir == ""
	if temp {
		if dir, err = os.MkdirTemp("", "pawl-chaos-"); err != nil {
			return false, err
		}
	}
	var rows []*run
	for _, store := range stores {
		r := proto
		r.store, r.dir = store, dir+"/"+store
		if err := os.MkdirAll(r.dir, 0o700); err != nil {
			return false, err
		}
		if err := r.do(ctx); err != nil {
			return false, fmt.Errorf("%s (see %s): %w", store, r.dir, err)
		}
		rows = append(rows, &r)
		bad = bad || len(r.found) > 0
	}
	table(os.Stdout, rows)
	if bad || !temp {
		fmt.Println("\nwhat the clients and the servers wrote is in", dir)
		return bad, nil
	}
	return bad, os.RemoveAll(dir)
}
