// SPDX-License-Identifier: Apache-2.0

package client

// The methods in this file are for tests of package pawl: they bring about, or show, what cannot be seen from outside.

// StopTimers stops the client's timers, as a suspend of the machine does.
func (c *Client) StopTimers() { c.sched.Stop() }

// HoldScheduler keeps the contexts of leases that end open, until the function that it returns is called.
func (c *Client) HoldScheduler() (release func()) { return c.sched.Hold() }

// HoldRenewals makes renewals that are due wait as if too many others were under way, until the function that it
// returns is called.
func (c *Client) HoldRenewals() (release func()) { return c.renewals.Hold() }

// Lines returns how many names have a line.
func (c *Client) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// Holder returns what holds name in its line: the lease of a caller, or what keeps a grant that nobody uses.
func (c *Client) Holder(name string) *Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[name].Holder()
}
