// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// A lease goes on for as long as its work reports progress, and no longer.
func TestProgressEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c, other := open(t, s.Participant(), &pawl.Options{TTL: 3 * time.Second}), open(t, s.Participant(), nil)
		l := acquire(t, c, "a", pawl.ProgressEvery(time.Minute))
		for range 100 {
			time.Sleep(50 * time.Second)
			if err := l.Progress(); err != nil {
				t.Fatal(err)
			}
		}
		if left := time.Until(l.Deadline()); left > 3*time.Second {
			t.Errorf("the deadline is %v from now; want the TTL at most", left)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if err := l.Err(); err != nil {
			t.Fatalf("just before the minute is over: %v", err)
		}
		time.Sleep(time.Nanosecond)
		var lost *pawl.LostError
		if err := l.Progress(); !errors.As(err, &lost) || lost.Reason != pawl.ReasonStuck {
			t.Errorf("Progress = %v; want a loss because the work is stuck", err)
		}
		time.Sleep(3 * time.Second) // it was not given back
		wantFree(t, other, "a")
		_ = l.Release(t.Context())
	})
}
