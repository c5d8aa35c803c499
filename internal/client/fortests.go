// SPDX-License-Identifier: Apache-2.0

package client

// The methods in this file are for the tests of package pawl.

// StopTimers stops the client's timers, as a suspend of the machine does.
func (c *Client) StopTimers() { c.sched.Stop() }

// HoldScheduler stops the scheduler from ending the contexts of leases, until release is called.
func (c *Client) HoldScheduler() (release func()) { return c.sched.Hold() }

// Lines returns how many names have a line.
func (c *Client) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}
