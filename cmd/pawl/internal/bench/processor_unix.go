// SPDX-License-Identifier: Apache-2.0

//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processor returns the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
