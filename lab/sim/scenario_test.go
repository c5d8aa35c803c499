// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
)

func TestScenarios(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			safe := Run(bubble(t), s.Safe)
			if len(safe.Violations) > 0 {
				t.Errorf("with %s: %v", s.Protection, safe.Violations)
			}
			// Everybody gets the lock by its script, and in the last round.
			want := len(s.Safe.Clients)
			for _, script := range s.Safe.Clients {
				want += len(script)
			}
			if safe.Grants != want {
				t.Errorf("with %s: %d leases, want %d", s.Protection, safe.Grants, want)
			}
			unsafe := Run(bubble(t), s.Unsafe)
			if !slices.ContainsFunc(unsafe.Violations, func(v Violation) bool { return v.Rule == s.Rule }) {
				t.Errorf("without %s: %v; want %q", s.Protection, unsafe.Violations, s.Rule)
			}
			if t.Failed() {
				for _, h := range []*History{safe, unsafe} {
					t.Log("----")
					for _, e := range h.Events {
						t.Log(e)
					}
				}
			}
		})
	}
}
