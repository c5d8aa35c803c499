// SPDX-License-Identifier: Apache-2.0

package participant

// Known returns how many leases the participant knows of, held or waited for.
func (p *Participant) Known() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.leases)
}
