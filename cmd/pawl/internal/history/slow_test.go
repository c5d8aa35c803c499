// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
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
		if got := (&Look{Took: took}).Seldom(); got != want {
			t.Errorf("%v: %q, want %q", took, got, want)
		}
	}
	var s Slowness
	var out strings.Builder
	for _, took := range []time.Duration{time.Second, time.Second, 1500 * time.Millisecond, 3 * time.Second, 0, time.Second} {
		s.Tell(&out, &Look{Took: took})
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("told %d times: %s", n, &out)
	}
}

// TestPaceOfSilence: a store that was away for long is not left alone for long.
func TestPaceOfSilence(t *testing.T) {
	l := Look{Took: Patience, Err: context.DeadlineExceeded}
	if l.Pace() != 2*Patience || l.Seldom() != "" {
		t.Errorf("asked again after %v; %q", l.Pace(), l.Seldom())
	}
	l.Err = nil
	if l.Pace() != share*Patience {
		t.Errorf("a list that takes %v is repeated after %v", l.Took, l.Pace())
	}
}
