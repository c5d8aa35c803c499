// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

const (
	askAtOnce   = 32                     // leases that are asked for at a time
	newsTimeout = 200 * time.Millisecond // for asking which client broke a lease: that is not important
)

// moved asks for all leases that should be in a server that is another one or in
// another run.
func (s *store) moved(by *epoch.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	var all []*grant
	for _, g := range s.grants {
		if s.server.Has(by, g.key) {
			all = append(all, g)
		}
	}
	s.work.Go(func() {
		storekit.Confirm(s.ctx, askAtOnce, all, func(ctx context.Context, g *grant) bool { return g.confirm(ctx) })
	})
}

// confirm ends the lease if the store does not have it any more, and reports whether there is
// no more to ask.
func (g *grant) confirm(ctx context.Context) (done bool) {
	if g.over() != nil {
		return true
	}
	there, known := g.there(ctx)
	if known && !there && g.over() == nil {
		g.tellGone()
	}
	return known
}

// there asks the store for the lease, and makes it no longer than it is.
func (g *grant) there(ctx context.Context) (there, known bool) {
	reply, _, fail := g.s.server.Run(ctx, extendScript, []string{g.key}, []string{g.lease, "1", g.shares(), g.s.server.EpochKey(g.key)})
	if fail != nil {
		return false, false
	}
	return epoch.Code(reply) == 1, true
}

func (g *grant) tellGone() {
	ctx, cancel := context.WithTimeout(g.s.ctx, newsTimeout)
	defer cancel()
	news := g.s.broken(ctx, g.key, g.lease)
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.lose(storekit.HowLost(news))
}
