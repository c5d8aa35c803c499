// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// TestSchedulerLooksEverySecond: timers stand still while the machine is suspended, and
// the clock of leases does not. So no timer is long: a lease whose time has passed
// meanwhile then ends soon after the resume.
func TestSchedulerLooksEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := memlock.Open(&pawl.Options{TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		if _, err := locks.Acquire(t.Context(), "deploy"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if next := pawl.NextLook(locks); next > time.Second {
				t.Errorf("the next look is in %v, want a second at most", next)
			}
			time.Sleep(2 * time.Second)
		}
	})
}
