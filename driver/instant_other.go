// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package driver

import "time"

// suspended estimates how long the machine has been suspended by how far the
// wall clock has run ahead of the monotonic clock. A step of the wall clock
// forward counts too: it can end a lease too early, never too late. A step back
// takes nothing away.
func suspended(last *suspendSample, skew int64) time.Duration {
	if last == nil {
		return 0
	}
	return last.suspended + time.Duration(max(skew-last.skew, 0))
}
