// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// hooked returns a harness with all hooks. Restart does nothing, or loses all
// data; Cut and Heal work, or Cut does nothing.
func hooked(amnesia, cuts bool) *Harness {
	h := Harness{Bubble: func(*testing.T, func(*testing.T)) {}}
	h.Start = func(testing.TB) Store {
		store := new(memlock.Store)
		var participants []*mutantDriver
		faults := make(map[driver.Driver]*Faulty)
		return Store{
			Open: func(testing.TB) driver.Driver {
				d := new(mutant).driver(store)
				participants = append(participants, d)
				f := NewFaulty(d)
				outer := &struct{ fullDriver }{f.Driver().(fullDriver)}
				faults[outer] = f
				return outer
			},
			Restart: func(testing.TB) {
				if !amnesia {
					return
				}
				store = new(memlock.Store)
				for _, d := range participants {
					d.inner = store.Driver().(fullDriver)
				}
			},
			Cut: func(_ testing.TB, d driver.Driver) {
				if cuts {
					faults[d].Cut()
				}
			},
			Heal: func(_ testing.TB, d driver.Driver) { faults[d].Heal() },
		}
	}
	return h.withDefaults()
}

// TestHooks checks the tests that need Restart or Cut, which memlock lacks: on a store
// that survives both, on one that forgets everything, and on one whose Cut does
// nothing.
func TestHooks(t *testing.T) {
	forgets := []string{"token-grows-across-a-restart", "reserved-tokens-stay-so-after-a-restart", "restart-does-not-end-a-trusted-lease"}
	lies := []string{"waiter-of-a-store-that-is-gone-is-told", "cut-off-participant-is-told-so", "cut-off-holder-keeps-nobody-out-for-long",
		"really-cut-off-client-stops-before-the-next-begins"}
	for _, test := range Tests {
		restart, cut := slices.Contains(test.Needs, "Restart"), slices.Contains(test.Needs, "Cut")
		if !restart && !cut {
			continue
		}
		run := func(name string, h *Harness, want bool) {
			t.Run(test.Name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					failed, log := record(t, func(tb testing.TB) {
						if missing, _ := runTest(tb, h, test); missing != "" {
							tb.Error("skipped for want of", missing)
						}
					})
					if failed != want {
						t.Errorf("failed: %v, want %v: %q", failed, want, log)
					}
				})
			})
		}
		run("sound", hooked(false, true), false)
		if restart && test.Name != "waiter-outlives-a-restart" {
			run("forgets", hooked(true, true), slices.Contains(forgets, test.Name))
		}
		if cut {
			run("lies", hooked(false, false), slices.Contains(lies, test.Name))
		}
	}
}
