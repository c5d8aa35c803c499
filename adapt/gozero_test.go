// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/driver/drivertest"
)

func TestGoZeroLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		l := &adapt.GoZeroLock{Locks: w.locks, Name: "a"}
		want := func(what string, f func() (bool, error), want bool) {
			t.Helper()
			if ok, err := f(); ok != want || err != nil {
				t.Errorf("%s: %v, %v; want %v", what, ok, err, want)
			}
		}
		want("release of what is not locked", l.Release, false)
		theirs := w.take(t, "a")
		want("acquire what another has", l.Acquire, false)
		give(t, theirs)
		want("acquire", l.Acquire, true)
		want("acquire again", l.Acquire, true)
		if l.Lease() == nil || l.Lease().Token() == 0 {
			t.Error("no lease with a token")
		}
		time.Sleep(time.Hour)
		w.wantHeld(t, "a")
		want("release", l.Release, true)
		want("release again", l.Release, false)
		w.wantFree(t, "a")

		l.SetExpire(10)
		want("acquire for 10 s", l.Acquire, true)
		time.Sleep(10 * time.Second)
		if l.Lease().Err() == nil {
			t.Error("it is held for longer than SetExpire says")
		}
		want("acquire after the loss", l.Acquire, true)
		if err := l.Lease().Err(); err != nil {
			t.Errorf("what was acquired after the loss: %v", err)
		}
		w.breakLease(t, "a")
		theirs = w.take(t, "a")
		want("release of what was lost", l.Release, false)
		if err := theirs.Err(); err != nil {
			t.Errorf("the lease of another: %v", err)
		}
		give(t, theirs)

		w.link.Cut()
		ok, err := l.AcquireCtx(background)
		wantIs(t, err, pawl.ErrUnavailable)
		w.link.Heal()
		ctx, cancel := context.WithCancel(background)
		cancel()
		_, err = l.AcquireCtx(ctx)
		if wantIs(t, err, context.Canceled); ok || l.Lease() != nil {
			t.Error("it is held after errors")
		}
		want("acquire when the store is back", l.Acquire, true)
		w.link.Add(drivertest.Rule{Op: drivertest.End, Count: 1})
		_, err = l.Release()
		wantIs(t, err, pawl.ErrUnavailable)
	})
}
