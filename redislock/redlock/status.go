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
	Closed time.Duration // how much longer it grants nothing new; 0 if it is open
	MaxTTL time.Duration // on which the clients of the node have agreed; 0 if unknown
	ID     string        // of the node, whatever its address; empty if it has no record
	Set    string        // the set of nodes that it serves: "quorum:id,id,id"; empty if no client has used it
	// Changing names the new nodes, and who changes the nodes. It is empty unless a change is under way; during a change
	// the node grants and renews nothing.
	Changing string
	SetBy    *driver.Holder // who has set MaxTTL; nil if unknown
	Err      error          // why the node did not answer; the other fields are unknown then
}

// judge records why a node that has answered counts as down.
func (s *Status) judge(odd error) {
	if s.Err == nil && odd != nil {
		*s = Status{Addr: s.Addr, ID: s.ID, Set: s.Set, Err: unavailable(odd)}
	}
}
