// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

const samples = 16 // how many slots of each master State asks about

// State asks all masters about some of their slots, and returns the longest quarantine. Some
// slots are enough, as the epochs of a master begin at about the same time. If some of these
// slots have a record, State ignores those without one: the client that made the records ended
// before it came to them. The first user of such a slot has to wait, but this quarantine is
// not the store's.
func (c *Cluster) State(ctx context.Context) (epoch.State, error) {
	servers, err := c.Servers(ctx)
	if err != nil {
		return epoch.State{}, conn.NotBound(ctx, err).Err
	}
	var all epoch.State
	var failed error
	var mu sync.Mutex
	var work sync.WaitGroup
	unused := make([]time.Duration, len(servers)) // of each master, the longest quarantine of a slot without a record
	used := make([]bool, len(servers))            // of each master, whether a slot has a record
	for n, s := range servers {
		slots := c.slotsOf(s, 0)
		for i := range min(samples, len(slots)) {
			key := c.epochKey(slots[i*len(slots)/samples%len(slots)])
			work.Go(func() {
				is, err := s.State(ctx, []string{key, noKey(key)}, false)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = err
					return
				}
				all.Run = is.Run
				if is.TTL == 0 {
					unused[n] = max(unused[n], is.Closed)
					return
				}
				used[n], all.Closed = true, max(all.Closed, is.Closed)
				if all.Term.Before(is.Term) {
					all.Term = is.Term
				}
			})
		}
	}
	work.Wait()
	for n := range servers {
		if !used[n] {
			all.Closed = max(all.Closed, unused[n])
		}
	}
	return all, failed
}
