// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Yield lets goroutines go first that are ready to run. Among those that keep the processors
// busy it may be long before it is the caller's turn again, so that is not tried again soon.
type Yield struct {
	rests atomic.Int64 // driver.Instant until which nobody is let go first
}

// longTurn is more than hundreds of requests take to be made, and as long as a
// goroutine that computes has a processor.
const longTurn = 10 * time.Millisecond

// Now lets others go first, and reports whether that took long.
func (y *Yield) Now() (long bool) {
	began := driver.Now()
	if began < driver.Instant(y.rests.Load()) {
		return false
	}
	runtime.Gosched()
	return driver.Now().Sub(began) > longTurn
}

// Rest makes Now let nobody go first for a while.
func (y *Yield) Rest() { y.rests.Store(int64(driver.Now().Add(10 * longTurn))) }
