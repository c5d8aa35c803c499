// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"

	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

const samples = 16 // slots of each master that State looks at

// State asks all masters about some of their slots and returns the longest quarantine:
// their epochs begin together.
func (c *Cluster) State(ctx context.Context) (epoch.State, error) {
	servers, err := c.Servers(ctx)
	if err != nil {
		return epoch.State{}, conn.NotBound(ctx, err).Err
	}
	var all epoch.State
	var failed error
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, s := range servers {
		slots := c.slotsOf(s, 0)
		for i := range min(samples, len(slots)) {
			key := c.epochKey(slots[i*len(slots)/samples%len(slots)])
			work.Go(func() {
				is, err := s.StateOf(ctx, []string{key, noKey(key)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = err
					return
				}
				all.Run, all.Closed = is.Run, max(all.Closed, is.Closed)
				if is.TTL != 0 && all.Term.Before(is.Term) {
					all.Term = is.Term
				}
			})
		}
	}
	work.Wait()
	return all, failed
}
