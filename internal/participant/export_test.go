// SPDX-License-Identifier: Apache-2.0

package participant

import "github.com/pawl-go/pawl/driver"

// Known returns how many leases the participant knows of, held or waited for.
func (p *Participant) Known() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.leases)
}

// StoodStill makes the participant find that its process has not run since an instant.
func (p *Participant) StoodStill(since driver.Instant) {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	p.running.last = since
}
