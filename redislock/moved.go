// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

const (
	askAtOnce  = 32                     // leases that are asked for at a time
	askAgain   = 200 * time.Millisecond // after a request without an answer
	askTimes   = 5
	askTimeout = time.Second
)

// moved asks for all leases that should be in a server that is another one or in
// another run. It may not know them, and somebody else may have the names. The next
// renewal would find that out, but may come much later.
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
		var asked sync.WaitGroup
		slots := make(chan struct{}, askAtOnce)
		for _, g := range all {
			slots <- struct{}{}
			asked.Go(func() { g.confirm(); <-slots })
		}
		asked.Wait()
	})
}

// confirm ends the lease if the store does not have it any more.
func (g *grant) confirm() {
	for range askTimes {
		if g.over() != nil || g.s.ctx.Err() != nil {
			return
		}
		if there, known := g.there(); known {
			if !there && g.over() == nil {
				g.tellGone()
			}
			return
		}
		select {
		case <-time.After(askAgain):
		case <-g.s.ctx.Done():
		}
	}
}

// there asks the store for the lease, and makes it no longer than it is.
func (g *grant) there() (there, known bool) {
	ctx, cancel := context.WithTimeout(g.s.ctx, askTimeout)
	defer cancel()
	shares := g.shares()
	reply, _, fail := g.s.server.Run(ctx, extendScript, []string{g.key}, []string{g.lease, "1", shares, g.s.server.EpochKey(g.key)})
	if fail != nil || g.shares() != shares {
		return false, false
	}
	return epoch.Code(reply) == 1, true
}

func (g *grant) tellGone() {
	ctx, cancel := context.WithTimeout(g.s.ctx, askAgain) // it is not important who broke it
	defer cancel()
	news := g.s.broken(ctx, g.key, g.lease)
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	lost := g.lostError()
	if news != "" {
		lost = storekit.ReadBroken(news)
	}
	g.lose(lost)
}
