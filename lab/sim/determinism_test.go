// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"runtime"
	"slices"
	"testing"
)

// TestSameSeedSameHistory runs each plan on one processor and on all, beside others.
func TestSameSeedSameHistory(t *testing.T) {
	n := schedules(t, 100)
	first := make([]*History, n)
	procs := runtime.GOMAXPROCS(1)
	search(t, n, Draw, func(h *History) bool { first[h.Plan.Seed] = h; return false })
	runtime.GOMAXPROCS(max(procs, 2))
	defer runtime.GOMAXPROCS(procs)
	differ := 0
	search(t, n, Draw, func(h *History) bool {
		other := first[h.Plan.Seed]
		if slices.Equal(h.Events, other.Events) {
			return false
		}
		if differ++; differ > 3 {
			return true
		}
		for i := range min(len(h.Events), len(other.Events)) {
			if h.Events[i] != other.Events[i] {
				t.Errorf("seed %d differs at event %d:\n%v\n%v\n", h.Plan.Seed, i, h.Events[i], other.Events[i])
				for j := max(0, i-6); j < min(i+6, len(h.Events), len(other.Events)); j++ {
					t.Logf("%v     | %v", h.Events[j], other.Events[j])
				}
				return false
			}
		}
		t.Errorf("seed %d: %d and %d events", h.Plan.Seed, len(h.Events), len(other.Events))
		return false
	})
}
