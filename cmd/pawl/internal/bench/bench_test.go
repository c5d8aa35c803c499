// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"

	"strings"
)

// TestBenchVerdict: the words are those of the figures.
func TestBenchVerdict(t *testing.T) {
	out := &benchJSON{
		Pair:    benchPart{P50: 290_000, PerSecond: 3000, RoundTrips: 2.04},
		Many:    benchPart{PerSecond: 45000},
		HandOff: benchPart{P50: 191_234, RoundTrips: 1.31},
	}
	const want = "A lock takes as long as 2.0 network round trips; it needs two.\nA hand-off costs 1.3 network round trips.\n" +
		"64 at a time are 15 times as fast as one after the other.\n"
	if got := out.verdict(true); got != want {
		t.Errorf("verdict = %q", got)
	}
	out.Kept = &benchPart{P50: 1_234}
	if got := out.verdict(true); !strings.Contains(got, "With KeepIdle a client takes the same lock again and again in 1.23µs instead of 290µs, with no request, until others want it.\n") {
		t.Errorf("verdict = %q", got)
	}
	if got := out.verdict(false); got != "There is no network in between: a lock costs 290µs, and a hand-off 191µs.\n" {
		t.Errorf("verdict = %q", got)
	}
	p := part([]time.Duration{4, 1, 3, 2, 100}, time.Second)
	if p.P50 != 3 || p.P99 != 4 || p.Count != 5 || p.PerSecond != 5 {
		t.Errorf("part = %+v", p)
	}
}
