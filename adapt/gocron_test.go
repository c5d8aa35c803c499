// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// lock is gocron.Lock.
type lock interface {
	Unlock(ctx context.Context) error
}

func TestGocronLocker(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		g := &adapt.GocronLocker[lock]{Locks: w.locks, Prefix: "jobs/", Report: told.tell}
		theirs := w.take(t, "jobs/main.run")
		_, err := g.Lock(background, "main.run")
		wantIs(t, err, pawl.ErrHeld)
		give(t, theirs)

		w.link.Cut()
		_, err = g.Lock(background, "main.run")
		wantIs(t, err, pawl.ErrUnavailable)
		w.link.Heal()

		ctx, cancel := context.WithCancel(background)
		run, err := g.Lock(ctx, "main.run")
		if err != nil {
			t.Fatal(err)
		}
		w.wantHeld(t, "jobs/main.run")
		_, err = g.Lock(background, "main.run") // by the same scheduler
		wantIs(t, err, pawl.ErrHeld)
		cancel() // the scheduler shuts down
		wantIs(t, run.Unlock(ctx), nil)
		w.wantFree(t, "jobs/main.run")
		theirs = w.take(t, "jobs/main.run")
		wantIs(t, run.Unlock(ctx), pawl.ErrReleased)
		wantIs(t, told.take(t), pawl.ErrReleased)
		if err := theirs.Err(); err != nil {
			t.Errorf("the lease of another: %v", err)
		}
		give(t, theirs)
		_, err = g.Lock(ctx, "main.run")
		wantIs(t, err, context.Canceled)
		wantIs(t, told.take(t), nil)
	})
}

// A scheduler whose clock is late must not run a short job once more.
func TestGocronMinHold(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		g := &adapt.GocronLocker[lock]{Locks: w.locks, MinHold: 10 * time.Second, Report: told.tell}
		run, err := g.Lock(background, "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		began := time.Now()
		if err := run.Unlock(background); err != nil || time.Since(began) > 0 {
			t.Errorf("Unlock = %v after %v, want nil at once", err, time.Since(began))
		}
		time.Sleep(6 * time.Second)
		w.wantHeld(t, "a")
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantFree(t, "a")
		wantIs(t, told.take(t), nil)

		// A run that takes longer is given back when it is over. An outage is told.
		if run, err = g.Lock(background, "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.link.Add(drivertest.Rule{Op: drivertest.End, Count: 1})
		wantIs(t, run.Unlock(background), pawl.ErrUnavailable)
		if told.take(t) == nil {
			t.Error("Report is not told of a release that failed")
		}
	})
}

func TestGocronLoss(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		for _, minHold := range []time.Duration{0, time.Minute} {
			var told reports
			g := &adapt.GocronLocker[lock]{Locks: w.locks, Prefix: "jobs/", MinHold: minHold, Report: told.tell}
			run, err := g.Lock(background, "a")
			if err != nil {
				t.Fatal(err)
			}
			w.breakLease(t, "jobs/a")
			theirs := w.take(t, "jobs/a")
			wantIs(t, run.Unlock(background), pawl.ErrLost)
			wantIs(t, told.take(t), pawl.ErrLost)
			if told.name != "jobs/a" {
				t.Errorf("Report is told %q", told.name)
			}
			if err := theirs.Err(); err != nil {
				t.Errorf("the lease of another: %v", err)
			}
			give(t, theirs)
		}
	})
}

func TestGocronLockerOfAnotherType(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		g := &adapt.GocronLocker[interface{ Unlock() }]{Locks: w.locks}
		_, err := g.Lock(background, "a")
		if err == nil || !strings.Contains(err.Error(), "must be gocron.Lock") {
			t.Errorf("Lock = %v, want what to type instead", err)
		}
		w.wantFree(t, "a")
	})
}
