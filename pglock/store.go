// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// store is the wire of one client.
type store struct {
	id       string // of this participant; names its channel
	where    string // for people
	schema   string
	sql      statements
	mode     Mode
	limit    *limit
	pool     *pool
	ear      ear
	takes    storekit.Batch[*asking, reply] // requests for free names
	releases storekit.Batch[ending, reply]
	renewals storekit.Batch[renewing, reply]
	records  storekit.Records
	events   storekit.Outbox[driver.Event]

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	binding sync.Mutex     // bind runs once at a time
	boundAt driver.Instant // when it was sent last; guarded by binding

	mu  sync.Mutex // guards run
	run run
}

var _ driver.Guarder = (*store)(nil)

// lookEvery is how often a waiter looks without a message, which may be late or lost.
const lookEvery = 2 * time.Second

// Caps implements driver.Store.
func (s *store) Caps() driver.Caps {
	return driver.Caps{
		Guarantees: driver.Guarantees{
			Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: s.mode != Async,
			Shared: true, Slots: true,
		},
		Queue: true, Look: lookEvery, Shows: true, Keeps: true, Adopts: true, Downgrades: true, LongerTTL: true,
	}
}

// Close implements driver.Store.
func (s *store) Close() error {
	s.cancel()
	s.ear.again()             // no work begins after this
	s.pool.drop(driver.Now()) // and no connection is made any more
	s.work.Wait()
	return nil
}
