// SPDX-License-Identifier: Apache-2.0

package pawl

// StopTimers stops the client's timers, as a suspend of the machine does.
func (c *Client) StopTimers() { c.sched.stop() }

// HoldScheduler keeps leases that end between their end and that of their
// contexts, until the function that it returns is called.
func (c *Client) HoldScheduler() (release func()) {
	c.sched.mu.Lock()
	return c.sched.mu.Unlock
}

// Lines returns how many names have a line.
func (c *Client) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// MaxRenewals is how many renewals of a client are under way at most.
const MaxRenewals = maxRenewals
