// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"sync"
	"testing"
	"testing/synctest"
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

func TestMutexPanicsIfTheStoreCannotBeAsked(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		m := &adapt.Mutex{Locks: w.locks, Name: "a"}
		w.link.Cut()
		wantIs(t, wantPanic(t, m.Lock), pawl.ErrUnavailable)
		wantIs(t, wantPanic(t, m.Unlock), pawl.ErrReleased)
		w.link.Heal()
		m.Lock() // the turn was given back
		if m.Lease() == nil || m.Lease().Token() == 0 {
			t.Errorf("Lease = %v, want one with a token", m.Lease())
		}
		m.Unlock()
		if m.Lease() != nil {
			t.Errorf("Lease = %v after Unlock, want nil", m.Lease())
		}
	})
}

// Two goroutines use one Mutex. The first loses the lease, and another process
// takes the lock. The Unlock of the first must say so, and end neither that one's
// lease nor the second's, which comes when its turn is.
func TestMutexAfterALoss(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		m := &adapt.Mutex{Locks: w.locks, Name: "a"}
		m.Lock()
		second := make(chan any, 1)
		go func() {
			defer func() { second <- recover() }()
			m.Lock()
		}()
		w.breakLease(t, "a")
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("the second is in while the first has not unlocked")
		default:
		}
		wantIs(t, m.Lease().Err(), pawl.ErrLost)
		theirs := w.take(t, "a")
		wantIs(t, wantPanic(t, m.Unlock), pawl.ErrLost)
		if err := theirs.Err(); err != nil {
			t.Errorf("the Unlock ended the lease of another: %v", err)
		}
		give(t, theirs)
		if v := <-second; v != nil {
			t.Fatal(v)
		}
		m.Unlock()
		w.wantFree(t, "a")
	})
}

func TestMutexPanicsIfItIsNotLocked(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		m := &adapt.Mutex{Locks: w.locks, Name: "a"}
		wantIs(t, wantPanic(t, m.Unlock), pawl.ErrReleased)
		m.Lock()
		w.wantHeld(t, "a")
		m.Unlock()
		wantIs(t, wantPanic(t, m.Unlock), pawl.ErrReleased)
		theirs := w.take(t, "a")
		wantIs(t, wantPanic(t, m.Unlock), pawl.ErrReleased)
		give(t, theirs)
		if err := wantPanic(t, (&adapt.Mutex{Locks: w.locks}).Lock); err == nil {
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

func TestMutexOfAClosedClient(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		theirs := w.take(t, "a")
		m := &adapt.Mutex{Locks: w.locks, Name: "a"}
		waiting := make(chan any)
		go func() {
			defer func() { waiting <- recover() }()
			m.Lock()
		}()
		synctest.Wait()
		if err := w.locks.Close(); err != nil {
			t.Fatal(err)
		}
		if v := <-waiting; v == nil {
			t.Error("a waiting Lock does not panic when the client is closed")
		}
		give(t, theirs)
		if err := wantPanic(t, m.Lock); err == nil {
			t.Error("Lock of a closed client does not panic")
		}
	})
}
