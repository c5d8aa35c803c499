// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"

	"time"
)

// TestSeldom: people are told what differs from what they expect.
func TestSeldom(t *testing.T) {
	for took, want := range map[time.Duration]string{
		10 * time.Millisecond:   "",
		500 * time.Millisecond:  "",
		1500 * time.Millisecond: "listing takes 1.5s, so it is repeated only every 15s",
	} {
		if got := Seldom(took); got != want {
			t.Errorf("%v: %q, want %q", took, got, want)
		}
	}
	var s Slowness
	var out strings.Builder
	for _, took := range []time.Duration{time.Second, time.Second, 1500 * time.Millisecond, 3 * time.Second, 0, time.Second} {
		s.Tell(&out, took)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("told %d times: %s", n, &out)
	}
}
