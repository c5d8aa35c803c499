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

// suspended returns how long the machine has been suspended since it booted.
// CLOCK_BOOTTIME is read first: a pause between the two readings makes the
// result smaller by as much as the caller's later reading is larger.
func suspended(*suspendSample, int64) time.Duration {
	boot := clock(clockBoottime)
	return boot - clock(clockMonotonic)
}

func clock(id uintptr) time.Duration {
	var ts syscall.Timespec
	// It cannot fail: both clocks exist since Linux 2.6.39 and ts is ours.
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
