// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

func TestTryAcquireAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		g, err := c.TryAcquireAll(t.Context(), []string{"b", "a"})
		if err != nil {
			t.Fatal(err)
		}
		if isFree(t, other, "a") || isFree(t, other, "b") {
			t.Error("a name is free")
		}
		release(t, g)
		l := acquire(t, other, "b")
		began := time.Now()
		_, err = c.TryAcquireAll(t.Context(), []string{"a", "b", "c"})
		wantIs(t, err, pawl.ErrHeld)
		if took := time.Since(began); took != 0 {
			t.Errorf("it has waited for %v", took)
		}
		release(t, l)
		wantFree(t, other, "a", "b", "c")
	})
}

// TestTryAcquireAfterAPause: after a pause of the process TryAcquire asks the store, although no timer has ended the lease
// that this client had.
func TestTryAcquireAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, new(memlock.Store).Participant(), &pawl.Options{TTL: time.Second})
		acquire(t, c, "a", pawl.NoRenew())
		stopTimers(c)
		time.Sleep(time.Minute)
		if _, err := c.TryAcquire(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
}
