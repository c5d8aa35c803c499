// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// StopTimers stops the client's timers, as a suspend of the machine does.
func (c *Client) StopTimers() { c.sched.Stop() }

// HoldScheduler keeps leases that end between their end and that of their
// contexts, until the function that it returns is called.
func (c *Client) HoldScheduler() (release func()) { return c.sched.Hold() }

// Lines returns how many names have a line.
func (c *Client) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// HoldRenewals keeps renewals that are due waiting for others, until the function
// that it returns is called.
func (c *Client) HoldRenewals() (release func()) { return c.renewals.Hold() }

// Look is what a call does whose context has ended.
func (c *Client) Look(ctx context.Context, name string) *HeldError { return c.look(ctx, name) }

// Lower is what a Downgrade does first when it has seen that the lease is held.
func (l *Lease) Lower() error { return l.lower() }

// NextLook returns when the scheduler of leases looks next.
func NextLook(c *Client) time.Duration { return c.sched.NextLook().Sub(driver.Now()) }
