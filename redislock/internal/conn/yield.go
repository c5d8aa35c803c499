// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Yield lets goroutines that are ready to run go first. If these keep the processors busy,
// a yield may take long. Then the caller should call Rest, so that it does not yield for a
// while.
type Yield struct {
	rests atomic.Int64 // driver.Instant until which Now does not yield
}

// longYield is the length of a yield that is too long. Hundreds of requests need less time, and
// the scheduler lets a goroutine that computes run for that time.
const longYield = 10 * time.Millisecond

// Now yields, and reports whether it took longer than longYield.
func (y *Yield) Now() (long bool) {
	began := driver.Now()
	if began < driver.Instant(y.rests.Load()) {
		return false
	}
	runtime.Gosched()
	return driver.Now().Sub(began) > longYield
}

// Rest stops Now from yielding for ten times longYield.
func (y *Yield) Rest() { y.rests.Store(int64(driver.Now().Add(10 * longYield))) }
