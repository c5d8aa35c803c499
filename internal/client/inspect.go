// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/participant"
)

// Obstacle is what a call of Acquire finds in its way.
type Obstacle struct {
	held  atomic.Pointer[driver.Held]
	timer *time.Timer
}

// obstacleAfter is longer than a hand-off takes.
const obstacleAfter = 50 * time.Millisecond

// FindObstacle asks the store once which lease is in the way, if the call waits for longer than a
// hand-off takes. The caller must call Stop.
func (c *Client) FindObstacle(name string) *Obstacle {
	o := new(Obstacle)
	o.timer = time.AfterFunc(obstacleAfter+c.random.spread(obstacleAfter/10), func() {
		c.Go(func(ctx context.Context) { // Close waits for it
			ctx, cancel := context.WithTimeout(ctx, participant.RequestTimeout)
			defer cancel()
			if info, err := c.participant.Inspect(ctx, name); err == nil && len(info.Holders) > 0 {
				o.held.Store(&info.Holders[0])
			}
		})
	})
	return o
}

func (o *Obstacle) Stop() { o.timer.Stop() }

// Held returns the lease that the call has found in its way so far, or nil.
func (o *Obstacle) Held() *driver.Held {
	if o == nil {
		return nil
	}
	return o.held.Load()
}

// Inspect asks the store about name, and adds what only this client knows: its own waiters, and which lease it keeps.
func (c *Client) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	info, err := c.participant.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	info.Waiters = append(info.Waiters, c.waiters(name)...)
	c.showIdle(info)
	return info, nil
}

// List asks the store for the names that begin with prefix, and adds which leases this client keeps.
func (c *Client) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	infos, err := c.participant.List(ctx, prefix)
	for _, info := range infos {
		c.showIdle(info)
	}
	return infos, err
}

// waiters describes the waiters for name that have not asked the store.
func (c *Client) waiters(name string) (all []driver.Waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[name]
	if ln == nil {
		return nil
	}
	now, wall := driver.Now(), time.Now().Round(0)
	for p := range ln.All() {
		w := p.Of
		all = append(all, driver.Waiter{
			Holder: *c.config.Holder, Lease: w.req.Lease, Since: wall.Add(w.call.Began.Sub(now)), Why: w.call.Terms.Why,
			Shared: w.call.Kind == line.Shared, Slots: max(0, int(w.call.Kind)), Holds: w.req.Holds, Local: true,
		})
	}
	return all
}

// showIdle sets Idle in info for the lease that this client keeps.
func (c *Client) showIdle(info *driver.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines[info.Name]
	if ln == nil || ln.Holder() == nil || !ln.Holder().idle {
		return
	}
	for i := range info.Holders {
		h := &info.Holders[i]
		h.Idle = h.Lease == ln.Holder().grant.id
	}
}

// heldBefore returns the error of a call that must not overtake this client's waiters. It
// names the holder if the store says who that is.
func (c *Client) heldBefore(ctx context.Context, name string) error {
	held := &driver.HeldError{}
	held.Info, _ = c.participant.Inspect(ctx, name)
	if err := c.over(ctx); err != nil {
		return err
	}
	return held
}

// heldError describes the lease as the store shows it to others.
func (l *Lease) heldError() *driver.HeldError {
	held := driver.Held{Holder: *l.grant.client.config.Holder, Lease: l.grant.id, Token: l.token}
	switch k := l.asked.Kind; {
	case k == line.Shared:
		held.Shared = true
	case k > 0:
		held.Slots = int(k)
	}
	held.Acquired = time.Now().Add(-driver.Now().Sub(l.began))
	return &driver.HeldError{Info: &driver.Info{Name: l.grant.name, Token: held.Token, Holders: []driver.Held{held}}}
}
