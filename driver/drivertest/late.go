// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Late measures how late goroutines run on this machine, until the test ends. The function that it returns
// gives the slack of a time limit: ten times the longest delay so far, because each of several steps in
// the test and its servers may be that late.
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
