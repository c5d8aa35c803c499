// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// store is the wire of one client.
type store struct {
	id       string // identifies this client; part of the name of its channel
	where    string // hosts and database, for error texts
	schema   string
	mode     Mode
	limit    *limit
	pool     *pool
	listener listener
	takes    storekit.Batch[*asking, reply] // requests for names that may be free
	releases storekit.Batch[ending, reply]
	renewals storekit.Batch[renewing, reply]
	records  storekit.Records
	events   storekit.Outbox[driver.Event]

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	binding sync.Mutex     // bind runs once at a time
	boundAt driver.Instant // when bind last sent its request; guarded by binding
	run     atomic.Value   // the run to which the store is bound
}

var _ driver.Guarder = (*store)(nil)

// lookEvery is how often a waiter looks without a message, because messages may be late or lost.
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
	s.listener.begin.Do(func() {})
	s.pool.drop(driver.Now()) // closes the idle connections, and later those in use
	s.work.Wait()
	return nil
}
