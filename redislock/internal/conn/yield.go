// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Yield lets goroutines that are ready to run go first. If some of them keep the
// processors busy, the caller may wait long for its turn; then it does not yield again
// for a while.
type Yield struct {
	rests atomic.Int64 // driver.Instant until which it does not yield
}

// longTurn is more than hundreds of requests take to be made, and as long as a
// goroutine that computes has a processor.
const longTurn = 10 * time.Millisecond

// Now yields, and reports whether that took long.
func (y *Yield) Now() (long bool) {
	began := driver.Now()
	if began < driver.Instant(y.rests.Load()) {
		return false
	}
	runtime.Gosched()
	return driver.Now().Sub(began) > longTurn
}

// Rest stops Now from yielding for a while.
func (y *Yield) Rest() { y.rests.Store(int64(driver.Now().Add(10 * longTurn))) }
