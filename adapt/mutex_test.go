// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/driver/drivertest"
)

func TestMutexLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		m := &adapt.Mutex{Locks: w.locks, Name: "a"}
		m.Lock()
		if m.Lease() == nil || m.Lease().Token() == 0 {
			t.Errorf("Lease = %v, want one with a token", m.Lease())
		}
		w.breakLease(t, "a")
		wantIs(t, m.Lease().Err(), pawl.ErrLost)
		wantIs(t, panics(m.Unlock), pawl.ErrLost)
		if m.Lease() != nil {
			t.Errorf("Lease = %v after Unlock, want nil", m.Lease())
		}
		if panics((&adapt.Mutex{Locks: w.locks}).Lock) == nil {
			t.Error("Lock without a name does not panic")
		}
	})
}

// The work was done under the lock. That the store cannot be told is no reason to
// panic.
func TestMutexUnlocksInAnOutage(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		m := &adapt.Mutex{Locks: w.locks, Name: "a"}
		m.Lock()
		w.link.Add(drivertest.Rule{Op: drivertest.End, Count: 1})
		m.Unlock()
		time.Sleep(2 * pawl.DefaultTTL)
		w.wantFree(t, "a")
		m.Lock()
		w.wantHeld(t, "a")
		m.Unlock()
	})
}
