// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/driver/drivertest"
)

func TestMutexExcludes(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var inside, most, done int
		var mu sync.Mutex
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			inside += by
			most = max(most, inside)
			done += max(by, 0)
		}
		var all sync.WaitGroup
		for _, locks := range []*pawl.Client{w.locks, w.other} {
			m := &adapt.Mutex{Locks: locks, Name: "a"}
			for range 10 {
				all.Go(func() {
					for range 10 {
						m.Lock()
						count(1)
						time.Sleep(time.Millisecond)
						count(-1)
						m.Unlock()
					}
				})
			}
		}
		all.Wait()
		if most != 1 || done != 200 {
			t.Errorf("up to %d at a time, %d in all, want 1 and 200", most, done)
		}
		w.wantFree(t, "a")
	})
}

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
