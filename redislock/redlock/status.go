// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Status is the state of a node.
type Status struct {
	Addr   string        // as the URL names it
	Run    string        // the id of this run; "" if it has none
	Closed time.Duration // for how much longer it grants nothing new; 0 if it is open
	MaxTTL time.Duration // on which the clients of the node have agreed; 0 if none is known
	ID     string        // by which the node is known, whatever its address; empty if it has no record
	Set    string        // of nodes that it serves: "quorum:id,id,id"; empty if no client has used it
	// Changing says to which nodes, and by whom, if the nodes are being changed: then it grants and renews nothing.
	Changing string
	SetBy    *driver.Holder // who has set MaxTTL; nil if that is not known
	Err      error          // why it did not answer; the rest is not known then
}
