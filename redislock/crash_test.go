// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"sync"
	"testing"

	"github.com/pawl-go/pawl"
)

// TestFairness: participants that want the same name all the time get it from the server
// equally often, for at most three requests each time.
func TestFairness(t *testing.T) {
	t.Parallel()
	const clients, each, enough = 8, 8, 200 // turns
	r := blessedServer(t)
	var counts [clients]int
	var inside, turns int // guarded by the lock under test, as last is
	var last string
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	var opened [clients]*pawl.Client // and connected, all before the first turn
	for i := range opened {
		var err error
		if opened[i], err = Open(t.Context(), r.url(), longOptions()); err != nil {
			t.Fatal(err)
		}
		defer opened[i].Close()
		must(t, opened[i].Do(ctx, "warm up", func(context.Context, *pawl.Lease) error { return nil }))
	}
	before := scriptCalls(r)
	for i, c := range opened {
		for range each {
			all.Go(func() {
				for ctx.Err() == nil {
					err := c.Do(ctx, "deploy", func(_ context.Context, l *pawl.Lease) error {
						inside++
						if l.ID() != last { // else it was passed on, in the same turn
							last = l.ID()
							turns++
							counts[i]++
						}
						if turns == enough {
							cancel()
						}
						return nil
					})
					if err != nil && ctx.Err() == nil {
						t.Errorf("Do = %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	var sum, squares float64
	for _, n := range counts {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if int(sum) != turns {
		t.Errorf("%d turns, but %v were counted", turns, sum)
	}
	if turns < enough {
		t.Errorf("%d turns in %v; want %d", turns, 6*patience, enough)
	}
	jain, asked := sum*sum/(clients*squares), float64(scriptCalls(r)-before)/sum
	t.Logf("%d leases in %v turns, Jain index %.3f, %.2f requests for each turn", inside, sum, jain, asked)
	if jain < 0.95 {
		t.Errorf("Jain index %.3f of %v; want 0.95 at least", jain, counts)
	}
	if asked > 3 {
		t.Errorf("%.2f requests for each turn; want 3 at most", asked)
	}
}
