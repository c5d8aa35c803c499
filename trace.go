// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// maxTrace bounds what Observer.Trace may have others store. A traceparent has 55 characters.
const maxTrace = 64

// traced returns the holder that a call of this context is on record as.
func (c *Client) traced(ctx context.Context) *driver.Holder {
	if c.observer.Trace == nil {
		return c.holder
	}
	trace := c.observer.Trace(ctx)
	if trace == "" || len(trace) > maxTrace {
		return c.holder
	}
	h := *c.holder
	h.Trace = trace
	return &h
}

// obstacle is what a call of Acquire finds in its way.
type obstacle struct {
	held  atomic.Pointer[Held]
	over  atomic.Bool // the call has ended
	timer *time.Timer
}

// obstacleAfter is longer than a hand-off takes.
const obstacleAfter = 50 * time.Millisecond

// findObstacle asks the store once what is in the way, if the call waits for longer than a hand-off
// takes. The caller has to call stop.
func (c *Client) findObstacle(name string) *obstacle {
	o := new(obstacle)
	o.timer = time.AfterFunc(obstacleAfter+c.random.spread(obstacleAfter/10), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed || o.over.Load() {
			return
		}
		c.background.Go(func() { // which Close waits for
			ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
			defer cancel()
			if info, err := c.Inspect(ctx, name); err == nil && len(info.Holders) > 0 {
				o.held.Store(&info.Holders[0])
			}
		})
	})
	return o
}

func (o *obstacle) stop() {
	o.over.Store(true)
	o.timer.Stop()
}

// obstacle returns what the call has found in its way so far.
func (a asked) obstacle() *Held {
	if a.behind == nil {
		return nil
	}
	return a.behind.held.Load()
}
