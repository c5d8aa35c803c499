// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"math"
	"sync/atomic"
	"time"
)

// Instant is a point on this process's clock for leases, in nanoseconds, always
// positive. The clock goes on while the machine is suspended and never steps back.
// Instants of different processes cannot be compared.
//
// Go's own monotonic clock stops during suspend on Linux and macOS: a laptop
// that wakes after an hour would find its leases an hour too young. Within a
// testing/synctest bubble the clock is the bubble's.
type Instant int64

// Add returns i+d, or the last instant if that is too far away.
func (i Instant) Add(d time.Duration) Instant {
	if d > 0 && i > math.MaxInt64-Instant(d) {
		return math.MaxInt64
	}
	return i + Instant(d)
}

// Sub returns i-j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Drift is the allowance for clocks that do not run at the same rate: Redlock's
// one hundredth of the time to live plus 2 ms.
func Drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Now returns the present instant.
//
// It is Go's monotonic clock plus the time that the machine has been suspended. Asking
// the kernel for the latter takes two system calls, so it is asked only when the wall
// clock and the monotonic clock have moved apart by more than skewTolerance since it
// was asked last: every suspend does that. So do steps and slews of the wall clock,
// which cost only these calls.
func Now() Instant {
	t := time.Now()
	mono := t.Sub(start)
	skew := t.UnixNano() - startWall - int64(mono)
	s := sample.Load()
	if s == nil || abs(skew-s.skew) > int64(skewTolerance) {
		fresh := &suspendSample{skew: skew, suspended: suspended(s, skew)}
		if s != nil {
			// The time in suspend never shrinks. So the larger of two readings is the
			// better one, and the clock never steps back.
			fresh.suspended = max(fresh.suspended, s.suspended)
		}
		sample.Store(fresh)
		s, mono = fresh, time.Since(start)
	}
	// startWall only makes the number positive, in a bubble too, whose clock
	// begins in the year 2000.
	return Instant(startWall + int64(mono+s.suspended))
}

// skewTolerance is far below the 2 ms that Drift grants at least.
const skewTolerance = 500 * time.Microsecond

var (
	start     = time.Now()
	startWall = start.UnixNano()
	sample    atomic.Pointer[suspendSample]
)

type suspendSample struct {
	skew      int64         // wall clock minus monotonic clock since start, when asked
	suspended time.Duration // time in suspend since boot (Linux) or start (elsewhere)
}

func abs(n int64) int64 { return max(n, -n) }
