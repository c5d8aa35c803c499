// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// eye sees each step of a run: what clients decide, and what nodes carry out. In tests
// one holds them against the formulas of spec/proof.
type eye interface {
	// driver returns d, seen.
	driver(client int, d *redlock.Driver) driver.Driver

	// sends is called when a client asks a node, and returns the number of the round.
	sends(client int, p redlock.Proposal) int64

	// queues is called when a client asks a node for a place in its queue.
	queues(p redlock.Place)

	// gives is called when a client ends a lease.
	gives(client int, e redlock.Ending)

	// The others are called while node.mu is held: before a step of the node, and when it
	// has carried out what its name says.
	before(n *node)
	voted(n *node, round int64, p redlock.Proposal, v redlock.Vote)
	ended(n *node, e redlock.Ending)
	handed(n *node, from string, p redlock.Place, token uint64)
	booted(n *node)
}

// openEye makes the eye of a world. Only tests have another.
var openEye = func(*world) eye { return closedEye{} }

type closedEye struct{}

func (closedEye) driver(_ int, d *redlock.Driver) driver.Driver      { return d }
func (closedEye) sends(int, redlock.Proposal) int64                  { return 0 }
func (closedEye) queues(redlock.Place)                               {}
func (closedEye) gives(int, redlock.Ending)                          {}
func (closedEye) before(*node)                                       {}
func (closedEye) voted(*node, int64, redlock.Proposal, redlock.Vote) {}
func (closedEye) ended(*node, redlock.Ending)                        {}
func (closedEye) handed(*node, string, redlock.Place, uint64)        {}
func (closedEye) booted(*node)                                       {}
