// SPDX-License-Identifier: Apache-2.0

//go:build !race

package participant_test

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSameSeedSameHistory runs each plan twice, on one processor. The race detector starts goroutines in a
// random order.
func TestSameSeedSameHistory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first := uint64(0)
	if text := os.Getenv("SEED"); text != "" {
		first, _ = strconv.ParseUint(text, 10, 64)
	}
	for seed := range uint64(histories(t, 100)) {
		seed += first
		a, b := in(t, draw(seed)), in(t, draw(seed))
		slices.Sort(a.log) // what happens in the same instant has no order
		slices.Sort(b.log)
		if !slices.Equal(a.log, b.log) {
			t.Fatalf("seed %d:\n%s\n\n%s", seed, strings.Join(a.log, "\n"), strings.Join(b.log, "\n"))
		}
	}
}
