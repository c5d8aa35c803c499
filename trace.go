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

// obstacle is the lease that a call of Acquire has found in its way; nil: none.
type obstacle = atomic.Pointer[Held]

// findObstacle asks the store once what is in the way, if the call waits for longer than a hand-off
// takes. The caller has to call stop.
func (c *Client) findObstacle(ctx context.Context, name string) (found *obstacle, stop func()) {
	found = new(obstacle)
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(lookAfter[0]+c.random.spread(lookAfter[0]/10), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed || ctx.Err() != nil {
			return
		}
		c.background.Go(func() { // which Close waits for
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			if info, err := c.Inspect(ctx, name); err == nil && len(info.Holders) > 0 {
				found.Store(&info.Holders[0])
			}
		})
	})
	return found, func() {
		timer.Stop()
		cancel()
	}
}

// obstacle returns what the call has found in its way so far.
func (a asked) obstacle() *Held {
	if a.behind == nil {
		return nil
	}
	return a.behind.Load()
}
