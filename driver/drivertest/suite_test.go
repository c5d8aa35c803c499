// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// inBubble runs one test of the suite with a mutant as the store, and returns
// whether it failed.
func inBubble(t *testing.T, m *mutant, test Test) (failed bool, log []string) {
	synctest.Test(t, func(t *testing.T) {
		failed, log = record(t, func(tb testing.TB) { runTest(tb, m.harness(), test) })
	})
	return failed, log
}

// TestMutants checks that each mistake that we can think of is found by the
// tests that are named after it, that memlock itself passes through the same
// harness, and that there is a mistake for each test.
func TestMutants(t *testing.T) {
	var mu sync.Mutex
	canFail := make(map[string]bool)
	t.Run("each", func(t *testing.T) {
		for _, m := range append(mutants, &mutant{name: "none"}) {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				var found []string
				for _, test := range Tests {
					failed, log := inBubble(t, m, test)
					if !failed {
						continue
					}
					found = append(found, test.Name)
					if m.name == "none" {
						t.Errorf("%s fails without a mistake: %q", test.Name, log)
					}
				}
				for _, name := range m.breaks {
					if !slices.Contains(found, name) {
						t.Errorf("%s does not find the mistake; these do: %q", name, found)
					}
				}
				t.Logf("found by %d tests: %q", len(found), found)
				mu.Lock()
				defer mu.Unlock()
				for _, name := range found {
					canFail[name] = true
				}
			})
		}
	})
	for _, test := range Tests {
		needsHook := slices.ContainsFunc(test.Needs, func(s string) bool { return s == "Restart" || s == "Cut" })
		if !canFail[test.Name] && !needsHook && !onlyPawl[test.Name] {
			t.Errorf("no mutant makes %s fail", test.Name)
		}
		if canFail[test.Name] && onlyPawl[test.Name] {
			t.Errorf("%s can fail: take it out of onlyPawl", test.Name)
		}
	}
}

// TestNames checks that names of tests are unique: they are quoted elsewhere.
func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, test := range Tests {
		if seen[test.Name] {
			t.Errorf("two tests are called %s", test.Name)
		}
		seen[test.Name] = true
	}
}
