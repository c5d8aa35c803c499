// SPDX-License-Identifier: Apache-2.0

package client

// The methods in this file are for tests of package pawl: they bring about, or show, what cannot be seen from outside.

// StopTimers stops the client's timers, as a suspend of the machine does.
func (c *Client) StopTimers() { c.sched.Stop() }

// HoldScheduler keeps the contexts of leases that end open, until the function that it returns is called.
func (c *Client) HoldScheduler() (release func()) { return c.sched.Hold() }

// Lines returns how many names have a line.
func (c *Client) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}
