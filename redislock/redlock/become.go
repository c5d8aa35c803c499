// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Downgrade implements driver.Downgrader. From the first call on every proposal of the
// lease asks for a shared lock. So nodes that this call does not reach learn of it at
// the next renewal. A reader may have a quorum before that, with nodes where the lease
// has no lock; a writer has none.
func (g *grant) Downgrade(ctx context.Context) error {
	if err := g.ended(); err != nil {
		return err
	}
	g.mu.Lock()
	g.shared = true
	left := g.until.Sub(driver.Now())
	g.mu.Unlock()
	// That does not prolong the lease: a node that has lost the lock gets it for as
	// long as the lease is trusted.
	if err := g.heal(ctx, max(left+driver.Drift(left), time.Millisecond), "know that the lease is shared now"); err != nil {
		return err
	}
	return g.ended()
}
