// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// StopTimers stops the client's timers, as a suspend of the machine does.
func (c *Client) StopTimers() { c.sched.Stop() }

// HoldScheduler keeps the contexts of leases that end open, until the function that it
// returns is called.
func (c *Client) HoldScheduler() (release func()) { return c.sched.Hold() }

// Lines returns how many names have a line.
func (c *Client) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// Kept returns the lease that keeps a grant of name which nobody uses.
func (c *Client) Kept(name string) *Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lines[name].Holder(); l.idle {
		return l
	}
	return nil
}

// HoldRenewals makes renewals that are due wait as if too many others were under way,
// until the function that it returns is called.
func (c *Client) HoldRenewals() (release func()) { return c.renewals.Hold() }

// Look is what a call does when its context has ended.
func (c *Client) Look(ctx context.Context, name string) error { return c.look(ctx, name) }

// Lower is the first step of a Downgrade after the check that the lease is held.
func (l *Lease) Lower() error { _, err := l.lower(); return err }

// NextLook returns how long it is until the scheduler looks at the leases next.
func NextLook(c *Client) time.Duration { return c.sched.NextLook().Sub(driver.Now()) }
