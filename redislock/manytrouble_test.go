// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// TestRefusedAmongMany: requests that the user has no right to are refused, and others
// at the same time are not.
func TestRefusedAmongMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	r.do("acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:epoch", "~pawl:check:*", "~pawl:token:*", "~pawl:{mine*", "&*", "+@all")
	s := open(t, "redis://app:s3cret@"+r.Addr, longOptions())
	for range 20 {
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				g, err := s.TryAcquire(t.Context(), long(fmt.Sprint("mine", i)))
				if err != nil {
					t.Errorf("TryAcquire = %v", err)
				} else if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
			all.Go(func() {
				fails(t, "TryAcquire of a key without rights", errorOf(s.TryAcquire(t.Context(), long(fmt.Sprint("theirs", i)))), driver.ErrUnavailable, "NOPERM")
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
	}
}
