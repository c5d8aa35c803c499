// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// schedules is how many plans are drawn and run: SIM_SCHEDULES, or few.
func schedules(t testing.TB, few int) int {
	s := os.Getenv("SIM_SCHEDULES")
	if s == "" {
		return few
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("SIM_SCHEDULES=%s: use a positive number", s)
	}
	return n
}

// search runs the plans of seeds from 0 up, on all processors, until n have been
// run or stop says so.
func search(t *testing.T, n int, plan func(seed uint64) Plan, stop func(*History) bool) (ran int64) {
	var next, done atomic.Int64
	var over atomic.Bool
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for !over.Load() {
				seed := next.Add(1) - 1
				if seed >= int64(n) {
					return
				}
				h := Run(t, plan(uint64(seed)))
				done.Add(1)
				if stop(h) {
					over.Store(true)
				}
			}
		})
	}
	wait.Wait()
	return done.Load()
}

func TestNothingForbiddenHappens(t *testing.T) {
	began := time.Now()
	var grants atomic.Int64
	var mu sync.Mutex
	var bad *History
	ran := search(t, schedules(t, 300), Draw, func(h *History) bool {
		grants.Add(int64(h.Grants))
		if len(h.Violations) == 0 {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if bad == nil || h.Plan.Seed < bad.Plan.Seed {
			bad = h
		}
		return true
	})
	took := time.Since(began)
	t.Logf("%d schedules, %d leases, %.0f schedules a second", ran, grants.Load(), float64(ran)/took.Seconds())
	if bad != nil {
		t.Errorf("seed %d: %v", bad.Plan.Seed, bad.Violations)
	}
	if grants.Load() < 2*ran {
		t.Errorf("only %d leases in %d schedules", grants.Load(), ran)
	}
}
