// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestBreakOfAHolderThatReleases: the first node tells the holder of the break, and the
// holder releases its lease at the others before they carry the break out. Their answers,
// of which a quorum finds nothing, come before the first node's.
func TestBreakOfAHolderThatReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		holder, operator := start(t, all, nil), start(t, all, nil)
		g := try(t, holder)
		told := make(chan error, 1)
		g.OnLost(func(err error) {
			g.Release(t.Context())
			told <- err
		})
		for i, m := range all {
			var ends atomic.Int32
			m.set(func(op string) fault {
				switch {
				case op != "end" || ends.Add(1) > 1: // the break comes first
					return fault{}
				case i == 0:
					return fault{after: 20 * time.Millisecond}
				}
				return fault{before: 10 * time.Millisecond}
			})
		}
		if err := operator.Break(t.Context(), name, g.lease, &driver.Holder{Who: "operator"}, "it hangs"); err != nil {
			t.Errorf("Break = %v; want nil, as the holder learnt of it", err)
		}
		if err := <-told; err == nil {
			t.Error("the holder was told nothing")
		}
		if err := operator.Break(t.Context(), name, g.lease, &driver.Holder{Who: "operator"}, "it hangs"); err == nil {
			t.Error("a second Break ended the lease again")
		}
	})
}
