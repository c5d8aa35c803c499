// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver/storekit"
)

const (
	askAtOnce  = 4                      // leases that are asked for at a time
	askAgain   = 200 * time.Millisecond // after a request without an answer
	askTimes   = 5
	askTimeout = time.Second
)

// confirmAll asks for all leases, after the server was replaced. The new one may not
// know them, and somebody else may have the names. The next renewal would find that
// out, but may come much later.
func (s *store) confirmAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	var all []*grant
	for _, g := range s.grants {
		all = append(all, g)
	}
	s.work.Go(func() {
		var asked sync.WaitGroup
		slots := make(chan struct{}, askAtOnce)
		for _, g := range all {
			slots <- struct{}{}
			asked.Go(func() { g.confirm(); <-slots })
		}
		asked.Wait()
	})
}

// confirm ends the lease if the store does not have it any more. It makes the lease no
// longer than it is.
func (g *grant) confirm() {
	for range askTimes {
		if g.over() != nil || g.s.ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(g.s.ctx, askTimeout)
		row, _, f := g.s.bound(ctx, g.s.sql.renew, g.name, g.lease, num(int64(g.kindNow())), "1")
		cancel()
		if f == nil {
			if integer(row[0]) == 0 && g.over() == nil {
				g.s.mu.Lock()
				lost := g.lostError()
				if len(row[2]) > 0 {
					lost = storekit.ReadBroken(string(row[2]))
				}
				g.lose(lost)
				g.s.mu.Unlock()
			}
			return
		}
		select {
		case <-time.After(askAgain):
		case <-g.s.ctx.Done():
		}
	}
}

const (
	tidyEvery = time.Hour
	tidyRows  = 1000
	keepFor   = 24 * time.Hour // how long a token is remembered
)

// tidy removes what nobody needs any more, now and then.
func (s *store) tidy() {
	for pause := rand.N(tidyEvery); ; pause = tidyEvery/2 + rand.N(tidyEvery) {
		select {
		case <-time.After(pause):
			_ = s.tidyOnce(s.ctx, keepFor) // the next one, or another client, does it
		case <-s.ctx.Done():
			return
		}
	}
}

// tidyOnce goes through all names.
func (s *store) tidyOnce(ctx context.Context, keep time.Duration) error {
	for after := ""; ; {
		row, _, f := s.call(ctx, s.sql.tidy, after, num(keep.Microseconds()), num(tidyRows))
		if f != nil {
			return f.err
		}
		if row[0] == nil {
			return nil
		}
		after = string(row[0])
	}
}
