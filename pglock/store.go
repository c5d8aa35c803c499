// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// store is one participant.
type store struct {
	id      string // of this participant; names its channel
	where   string // for people
	schema  string
	sql     statements
	mode    Mode
	limit   *limit
	pool    *pool
	ear     ear
	clock   storekit.ServerTime
	soon    renewals
	takes   batch // requests for free names
	gives   batch // releases
	records storekit.Records
	news    storekit.Outbox[driver.News]

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	binding sync.Mutex     // bind runs once at a time
	boundAt driver.Instant // when it was sent last; guarded by binding

	mu      sync.Mutex // guards the fields below
	run     run
	waiters map[string]*waiter // by lease
	grants  map[string]*grant  // by lease
}

var (
	_ driver.Queuer    = (*store)(nil)
	_ driver.Inspector = (*store)(nil)
	_ driver.Reporter  = (*store)(nil)
	_ driver.Describer = (*store)(nil)
)

// Guarantees implements driver.Driver.
func (s *store) Guarantees() driver.Guarantees {
	return driver.Guarantees{
		Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: s.mode != Async,
		Shared: true, Slots: true,
	}
}

func (s *store) usable(ctx context.Context, req *driver.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return unavailable(errClosed)
	}
	if req == nil {
		return nil
	}
	return s.checkTTL(req.TTL)
}

func (s *store) checkTTL(ttl time.Duration) error {
	if err := s.limit.check(ttl); err != nil {
		return fmt.Errorf("pglock: %w", err)
	}
	return nil
}

// Close implements driver.Driver.
func (s *store) Close() error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.mu.Lock() // no work begins after this, beside Wait
	s.cancel()
	s.mu.Unlock()
	s.ear.close()
	s.pool.close()
	s.work.Wait()
	return nil
}
