// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver/storekit"
)

const askAtOnce = 4 // leases that are asked for at a time

// confirmAll asks for all leases, after the server was replaced.
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
		storekit.Confirm(s.ctx, askAtOnce, all, func(ctx context.Context, g *grant) bool { return g.confirm(ctx) })
	})
}

// confirm ends the lease if the store does not have it any more, and reports whether there is
// no more to ask. It makes the lease no longer than it is.
func (g *grant) confirm(ctx context.Context) (done bool) {
	if g.over() != nil {
		return true
	}
	row, _, f := g.s.bound(ctx, g.s.sql.renew, g.name, g.lease, num(int64(g.kind)), "1")
	if f != nil {
		return false
	}
	if integer(row[0]) == 0 && g.over() == nil {
		g.s.mu.Lock()
		defer g.s.mu.Unlock()
		g.lose(storekit.HowLost(string(row[2])))
	}
	return true
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
