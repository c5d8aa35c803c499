// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"slices"
	"strings"
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

// finds reports whether test finds the mistake in m. Some tests are random and miss a
// mistake now and then, but not twice in three runs.
func finds(t *testing.T, test Test, m *mutant) bool {
	if failed, _ := inBubble(t, m, test); failed {
		return true
	}
	for range 2 {
		if failed, _ := inBubble(t, m, test); !failed {
			return false
		}
	}
	return true
}

// TestMutants checks that each mistake that we can think of is found by the
// tests that are named after it, that memlock itself passes through the same
// harness, and that there is a mistake for each test.
func TestMutants(t *testing.T) {
	var mu sync.Mutex
	canFail := make(map[string]bool)
	can := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		canFail[name] = true
	}
	t.Run("none", func(t *testing.T) {
		for _, test := range Tests {
			for _, m := range []*mutant{{name: "none"}, {name: "none", reserve: 7}} {
				if failed, log := inBubble(t, m, test); failed {
					t.Errorf("%s fails without a mistake, with %d tokens set aside: %q", test.Name, m.reserve, log)
				}
			}
		}
	})
	t.Run("each", func(t *testing.T) {
		for _, m := range mutants {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				for _, name := range m.breaks {
					i := slices.IndexFunc(Tests, func(test Test) bool { return test.Name == name })
					if i < 0 {
						t.Fatalf("there is no test %s", name)
					}
					if !finds(t, Tests[i], m) {
						t.Errorf("%s does not find the mistake", name)
					}
					can(name)
				}
			})
		}
	})
	// Of the other tests each finds some mistake, too.
	t.Run("any", func(t *testing.T) {
		for _, test := range Tests {
			needsHook := slices.ContainsFunc(test.Needs, func(s string) bool { return s == "Restart" || s == "Cut" })
			switch {
			case canFail[test.Name] && onlyPawl[test.Name]:
				t.Errorf("%s can fail: take it out of onlyPawl", test.Name)
			case canFail[test.Name] || needsHook || onlyPawl[test.Name]:
				continue
			}
			t.Run(test.Name, func(t *testing.T) {
				t.Parallel()
				if !slices.ContainsFunc(slices.Repeat(mutants, 3), func(m *mutant) bool {
					failed, _ := inBubble(t, m, test)
					return failed
				}) {
					t.Errorf("no mutant makes %s fail", test.Name)
				}
			})
		}
	})
}

// TestNames checks that names of tests are unique, as they are quoted elsewhere, and that those
// with a restart say so: harnesses give them stores of their own.
func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, test := range Tests {
		if seen[test.Name] {
			t.Errorf("two tests are called %s", test.Name)
		}
		seen[test.Name] = true
		if slices.Contains(test.Needs, "Restart") != strings.Contains(test.Name, "restart") {
			t.Errorf("%s needs %v", test.Name, test.Needs)
		}
	}
}
