// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestNowFollowsTheBubblesClock(t *testing.T) {
	outside := Now()
	synctest.Test(t, func(t *testing.T) {
		began := Now()
		if began <= 0 {
			t.Errorf("instant %d is not positive", began)
		}
		time.Sleep(90 * time.Minute)
		if got := Now().Sub(began); got != 90*time.Minute {
			t.Errorf("%v passed, want 90m", got)
		}
	})
	if d := Now().Sub(outside); d < 0 || d > time.Minute {
		t.Errorf("after the bubble the clock has moved by %v", d)
	}
}

// An old sample stands for a machine that has been suspended for an hour since:
// the wall clock has moved on, the monotonic clock has not, and the kernel tells.
func TestNowAsksTheKernelWhenTheWallClockHasMoved(t *testing.T) {
	Now()
	real := *sample.Load()
	stale := suspendSample{skew: real.skew - int64(time.Hour), suspended: real.suspended - time.Hour}
	sample.Store(&stale)
	before := Instant(startWall + int64(time.Since(start)+real.suspended))
	if got := Now(); got < before {
		t.Errorf("the clock is %v late after a suspend", before.Sub(got))
	}
	if got := sample.Load().suspended; got < real.suspended-time.Second {
		t.Errorf("time in suspend is still %v, want %v", got, real.suspended)
	}
}

// Small movements of the wall clock cost no system call. If the process loses its
// processor between the looks at the two clocks they seem to have moved apart.
func TestNowTrustsAFreshSample(t *testing.T) {
	Now()
	last, asked := sample.Load(), 0
	for range 1000 {
		Now()
		if s := sample.Load(); s != last {
			last = s
			asked++
		}
	}
	if asked > 20 {
		t.Errorf("asked %d times in 1000", asked)
	}
}
