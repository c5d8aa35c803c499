// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// Obstacle is what a call of Acquire finds in its way.
type Obstacle struct {
	held  atomic.Pointer[driver.Held]
	over  atomic.Bool // the call has ended
	timer *time.Timer
}

// obstacleAfter is longer than a hand-off takes.
const obstacleAfter = 50 * time.Millisecond

// FindObstacle asks the store once which lease is in the way, if the call waits for longer than a
// hand-off takes. The caller must call Stop.
func (c *Client) FindObstacle(name string) *Obstacle {
	o := new(Obstacle)
	o.timer = time.AfterFunc(obstacleAfter+c.random.spread(obstacleAfter/10), func() {
		if o.over.Load() {
			return
		}
		c.Go(func(ctx context.Context) { // Close waits for it
			ctx, cancel := context.WithTimeout(ctx, participant.RequestTimeout)
			defer cancel()
			if info, err := c.store.Inspect(ctx, name); err == nil && len(info.Holders) > 0 {
				o.held.Store(&info.Holders[0])
			}
		})
	})
	return o
}

func (o *Obstacle) Stop() {
	o.over.Store(true)
	o.timer.Stop()
}

// Held returns the lease that the call has found in its way so far, or nil.
func (o *Obstacle) Held() *driver.Held {
	if o == nil {
		return nil
	}
	return o.held.Load()
}
