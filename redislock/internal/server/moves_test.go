// SPDX-License-Identifier: Apache-2.0

package server

import "testing"

// TestStaleAnswer: a request that was made for one run and executed by it after
// this participant was with another one, and back again, counts for nothing.
func TestStaleAnswer(t *testing.T) {
	s := New(nil, Config{})
	bind := func(boot string) (b *binding, owed bool) {
		b = &binding{boot: boot}
		return b, s.moved(b)
	}
	first, owed := bind("a")
	if owed {
		t.Error("the first server is told of another one")
	}
	again, owed := bind("a")
	if owed || s.stale(first) != nil || s.stale(again) != nil {
		t.Error("binding to the same run again is taken for a change")
	}
	bind("b")
	if f := s.stale(first); f == nil || !f.Maybe {
		t.Errorf("an answer from the run that was left: %v; want a failure that may have been executed", f)
	}
	back, owed := bind("a")
	if !owed {
		t.Error("the first server is not told of the other one")
	}
	if _, owed = bind("a"); !owed {
		t.Error("a server that could not be told is not told again")
	}
	s.arrived()
	if _, owed = bind("a"); owed {
		t.Error("a server is told twice")
	}
	if s.stale(first) == nil || s.stale(back) != nil {
		t.Error("what was made for a run before it was left is believed, or what was made after is not")
	}
}
