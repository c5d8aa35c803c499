// SPDX-License-Identifier: Apache-2.0

package epoch

import "testing"

// TestSetThatIsRecordedTwice: of five nodes with a quorum of four, the set in between on the way to three is the
// same. A client that starts meanwhile has it.
func TestSetThatIsRecordedTwice(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e"}
	set := NewSet(4, ids)
	g := NewGroup(4, ids)
	g.learn(1, Sets{Self: "b", Gen: 2, OK: []Set{set, set}})
	if got := g.set(); got != set.String() {
		t.Errorf("the client has the set %s; want %v", got, set)
	}
	other := NewSet(4, []string{"b", "c", "d", "e", "f"})
	g = NewGroup(4, []string{"x", "b", "c", "d", "y"})
	g.learn(1, Sets{Self: "b", Gen: 2, OK: []Set{set, other}})
	if got := g.set(); got != "?" {
		t.Errorf("a client that may have either of two sets takes %s", got)
	}
}
