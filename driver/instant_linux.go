// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"syscall"
	"time"
	"unsafe"
)

// Clock ids of clock_gettime(2).
const (
	clockMonotonic = 1 // stops during suspend
	clockBoottime  = 7 // does not
)

// suspended returns how long the machine has been suspended since it booted,
// and at most uncertainty less than that. The thread may lose its processor
// between readings of the two clocks; the boot clock is read between two
// readings of the other, which tell how good the result is.
func suspended(*suspendSample, int64) time.Duration {
	var best, width time.Duration
	for try := range 10 {
		before := clock(clockMonotonic)
		boot := clock(clockBoottime)
		after := clock(clockMonotonic)
		if try == 0 || after-before < width {
			best, width = boot-after, after-before
		}
		if width < uncertainty {
			break
		}
	}
	return best
}

// uncertainty is far below the 2 ms that Drift grants at least.
const uncertainty = 50 * time.Microsecond

func clock(id uintptr) time.Duration {
	var ts syscall.Timespec
	// It cannot fail: both clocks exist since Linux 2.6.39 and ts is ours.
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
