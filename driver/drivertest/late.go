// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Late measures how late goroutines are until the test ends. The function that it returns is for limits
// that a machine in time keeps: ten times the longest delay so far, as much as some steps of a test and
// of servers may have had on the same machine.
func Late(t testing.TB) func() time.Duration {
	const often = 10 * time.Millisecond
	var worst atomic.Int64
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			before := driver.Now()
			select {
			case <-time.After(often):
				worst.Store(max(worst.Load(), int64(driver.Now().Sub(before)-often)))
			case <-done:
				return
			}
		}
	}()
	return func() time.Duration { return 10 * time.Duration(worst.Load()) }
}
