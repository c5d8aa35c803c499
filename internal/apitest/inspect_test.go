// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// Inspect shows the waiters of the store with the ids of their attempts, and those of the client
// that has the name with what they hold.
func TestInspectShowsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		who := pawl.Holder{Who: "me", User: "u", Host: "h", PID: 1, Command: "c"}
		c, other := open(t, s.Participant(), &pawl.Options{Holder: who}), open(t, s.Participant(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := acquire(t, other, "b") // which c asks the store for
		go c.Acquire(ctx, "b", pawl.Shared(), pawl.Why("to read"))
		synctest.Wait()
		info, err := c.Inspect(t.Context(), "b")
		if err != nil || len(info.Waiters) != 1 {
			t.Fatalf("Inspect = %+v, %v; want one waiter", info, err)
		}
		if w := info.Waiters[0]; w.Lease == "" || w.Local || !w.Shared || w.Why != "to read" || w.Holder != who {
			t.Errorf("a waiter at the store: %+v", w)
		}
		release(t, a)

		since := time.Now()
		acquire(t, c, "x")
		y := acquire(t, c, "y")
		under, stop := y.Context(ctx)
		defer stop()
		go c.Acquire(under, "x", pawl.Why("to write"))
		synctest.Wait()
		info, err = c.Inspect(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		want := []pawl.Waiter{{Holder: who, Since: since.Round(0), Why: "to write", Local: true, Holds: []pawl.Hold{{Name: "y", Lease: y.ID()}}}}
		if len(info.Waiters) == 1 {
			want[0].Lease = info.Waiters[0].Lease
		}
		if !reflect.DeepEqual(info.Waiters, want) {
			t.Errorf("waiters of x: %+v; want %+v", info.Waiters, want)
		}
		if info, err = other.Inspect(t.Context(), "x"); err != nil || len(info.Waiters) > 0 {
			t.Errorf("another client sees %+v, %v", info, err)
		}
	})
}
