// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"syscall"
	"time"
)

// processor returns the processor time that this process has used.
func processor() time.Duration {
	var began, ended, kernel, user syscall.Filetime
	self, err := syscall.GetCurrentProcess()
	if err != nil || syscall.GetProcessTimes(self, &began, &ended, &kernel, &user) != nil {
		return 0
	}
	ticks := int64(kernel.HighDateTime)<<32 + int64(kernel.LowDateTime) + int64(user.HighDateTime)<<32 + int64(user.LowDateTime)
	return time.Duration(ticks * 100)
}
