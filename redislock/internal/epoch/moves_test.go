// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// TestStaleAnswer: a request that was made for one run and executed by it after
// this participant was with another one, and back again, counts for nothing.
func TestStaleAnswer(t *testing.T) {
	s := New(nil, Config{})
	var clock driver.Instant
	bind := func(boot string) (b *Binding, owed driver.Instant) {
		b = &Binding{boot: boot}
		clock++
		return b, s.moved(b, clock)
	}
	first, owed := bind("a")
	if owed != 0 {
		t.Error("the first server is told of another one")
	}
	again, owed := bind("a")
	if owed != 0 || s.Stale(first) != nil || s.Stale(again) != nil {
		t.Error("binding to the same run again is taken for a change")
	}
	bind("b")
	if f := s.Stale(first); f == nil || !f.Maybe {
		t.Errorf("an answer from the run that was left: %v; want a failure that may have been executed", f)
	}
	back, owed := bind("a")
	if owed != clock {
		t.Error("the first server is not told of the other one")
	}
	if _, again := bind("a"); again != owed {
		t.Error("a server that could not be told is not told the same again")
	}
	s.arrived()
	if _, owed = bind("a"); owed != 0 {
		t.Error("a server is told twice")
	}
	if s.Stale(first) == nil || s.Stale(back) != nil {
		t.Error("what was made for a run before it was left is believed, or what was made after is not")
	}
}

// TestRuns: only the present run is believed.
func TestRuns(t *testing.T) {
	s := &Server{}
	if s.Runs("") {
		t.Error("a run that does not say which it is is believed")
	}
	s.moved(&Binding{boot: "first"}, 0)
	if !s.Runs("first") || s.Runs("second") || s.Runs("") {
		t.Error("it is not the present run that is believed")
	}
	s.moved(&Binding{boot: "second"}, 0)
	if s.Runs("first") {
		t.Error("a run that was left is believed")
	}
}
