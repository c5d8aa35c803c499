// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/ministore"
)

// TestLateMachine: what a late machine explains begins the test again with longer leases, until they
// are long enough. What it does not explain, and what a machine in time does, fails at once.
func TestLateMachine(t *testing.T) {
	gaveUp := fmt.Errorf("%w: i/o timeout", driver.ErrUnavailable)
	for name, c := range map[string]struct {
		late     bool
		run      func(*env)
		attempts int
		failed   bool
	}{
		"an error":                  {true, func(e *env) { e.Errorf("Release = %v", gaveUp) }, 2, false},
		"one that ends the test":    {true, func(e *env) { e.Fatal(gaveUp) }, 2, false},
		"one in a goroutine":        {true, func(e *env) { done := make(chan int); go func() { e.Error(gaveUp); close(done) }(); <-done }, 2, false},
		"each time":                 {true, func(e *env) { e.pulse.saw(time.Hour); e.Errorf("Release = %v", gaveUp) }, 3, true},
		"two holders":               {true, func(e *env) { e.Error("two holders") }, 1, true},
		"held":                      {true, func(e *env) { e.Fatalf("TryAcquire = %v", driver.ErrHeld) }, 1, true},
		"two holders, and an error": {true, func(e *env) { e.Error("two holders"); e.Error(gaveUp) }, 1, true},
		"in time":                   {false, func(e *env) { e.Errorf("Release = %v", gaveUp) }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			failed, log := record(t, func(t testing.TB) {
				h := Harness{TTL: 2 * time.Second, Start: func(testing.TB) Store {
					return Store{Open: func(testing.TB) driver.Driver { return new(ministore.Table).Driver() }}
				}}.withDefaults()
				runTest(t, h, Test{Name: name, run: func(e *env) {
					if attempts++; c.late && attempts == 1 {
						e.pulse.saw(time.Minute)
					}
					if attempts == 1 || name == "each time" {
						c.run(e)
					}
				}})
			})
			if attempts != c.attempts || failed != c.failed {
				t.Errorf("%d attempts, failed: %v; want %d, %v\n%s", attempts, failed, c.attempts, c.failed, strings.Join(log, ""))
			}
		})
	}
}
