// SPDX-License-Identifier: Apache-2.0

package pawl

// StopTimers stops the client's timers, as a suspend of the machine does.
func (c *Client) StopTimers() { c.sched.stop() }
