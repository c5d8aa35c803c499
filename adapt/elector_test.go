// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
)

func elector(t *testing.T, locks *pawl.Client, told *reports) *adapt.Elector {
	t.Helper()
	e := &adapt.Elector{Locks: locks, Name: "scheduler", Report: told.tell}
	wantIs(t, e.IsLeader(background), adapt.ErrNotLeader) // not started
	wantIs(t, e.Close(), nil)
	e.Start()
	synctest.Wait()
	return e
}

func TestElector(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		a := elector(t, w.locks, &told)
		b := elector(t, w.other, &told)
		if err := a.IsLeader(background); err != nil || a.Lease() == nil {
			t.Fatalf("the first: %v, lease %v", err, a.Lease())
		}
		wantIs(t, b.IsLeader(background), adapt.ErrNotLeader)
		if b.Lease() != nil {
			t.Error("the second has a lease")
		}
		first := a.Lease().Token()

		w.breakLease(t, "scheduler") // a stands for election again, behind b
		wantIs(t, a.IsLeader(background), adapt.ErrNotLeader)
		if err := b.IsLeader(background); err != nil || b.Lease().Token() <= first {
			t.Errorf("the second: %v, lease %v", err, b.Lease())
		}
		time.Sleep(time.Minute)
		for range 2 {
			wantIs(t, b.Close(), nil)
		}
		wantIs(t, b.IsLeader(background), adapt.ErrNotLeader)
		synctest.Wait()
		if err := a.IsLeader(background); err != nil {
			t.Errorf("the first after the second has resigned: %v", err)
		}
		wantIs(t, a.Close(), nil)
		w.wantFree(t, "scheduler")
		wantIs(t, told.take(t), nil)
	})
}

// Between the end of a lease and the goroutine that hears of it, IsLeader looks at
// the lease itself. Which of the two comes first at the deadline is random in a
// bubble, so it is tried often.
func TestElectorLooksAtItsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		e := elector(t, w.locks, &told)
		for range 100 {
			lease := e.Lease()
			for ; lease == nil; lease = e.Lease() {
				time.Sleep(time.Second)
			}
			w.link.Cut()
			time.Sleep(time.Until(lease.Deadline()))
			lost := lease.Err()
			leads := e.IsLeader(background) == nil
			wantIs(t, lost, pawl.ErrLost)
			if leads {
				t.Fatal("it leads with a lease that is lost")
			}
			w.link.Heal()
		}
		wantIs(t, e.Close(), nil)
	})
}

func TestElectorThatCannotBegin(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		w.link.Cut()
		e := elector(t, w.locks, &told)
		wantIs(t, e.IsLeader(background), adapt.ErrNotLeader, pawl.ErrUnavailable)
		wantIs(t, told.take(t), pawl.ErrUnavailable)
		w.link.Heal()
		time.Sleep(2 * time.Second)
		if err := e.IsLeader(background); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		wantIs(t, e.Close(), nil)

		e = &adapt.Elector{Locks: w.locks, Report: told.tell} // without a name
		e.Start()
		synctest.Wait()
		if told.take(t) == nil || e.Close() == nil {
			t.Error("an elector without a name does not say so")
		}
		wantIs(t, e.IsLeader(background), adapt.ErrNotLeader)

		e = elector(t, w.locks, &told)
		give(t, e.Lease()) // resigns, and stands for election again
		wantIs(t, e.IsLeader(background), adapt.ErrNotLeader)
		time.Sleep(2 * time.Second)
		wantIs(t, e.IsLeader(background), nil)
		w.locks.Close()
		time.Sleep(time.Minute)
		wantIs(t, e.IsLeader(background), adapt.ErrNotLeader)
		if told.take(t) == nil || e.Close() == nil {
			t.Error("an elector whose client was closed does not say so")
		}
	})
}
