// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
)

// TestLoss: a holder is told once, of the first loss, whether it asks before or after; and not
// once it gives back, or has seen it itself.
func TestLoss(t *testing.T) {
	first, second := &driver.LostError{Reason: driver.Broken}, &driver.LostError{Reason: driver.Gone}
	for _, c := range []struct {
		what string
		do   func(l *Loss, f func(error))
		told int
		err  error // nil: not lost
	}{
		{"told", func(l *Loss, f func(error)) { l.OnLost(f); l.Tell(first); l.Tell(second) }, 1, first},
		{"told late", func(l *Loss, f func(error)) { l.Tell(first); l.Tell(second); l.OnLost(f) }, 1, first},
		{"seen", func(l *Loss, f func(error)) { l.OnLost(f); l.Note(first); l.Tell(second) }, 0, first},
		{"given back", func(l *Loss, f func(error)) { l.OnLost(f); l.Hush(); l.Tell(first) }, 0, first},
		{"not lost", func(l *Loss, f func(error)) { l.OnLost(f) }, 0, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l Loss
			told := make(chan error, 3)
			c.do(&l, func(err error) { told <- err })
			synctest.Wait()
			if len(told) != c.told {
				t.Errorf("%s: the holder was told %d times; want %d", c.what, len(told), c.told)
			} else if c.told == 1 {
				if err := <-told; err != c.err {
					t.Errorf("%s: the holder was told %v; want %v", c.what, err, c.err)
				}
			}
			if l.Err() != c.err || c.err != nil && l.Note(second) != c.err {
				t.Errorf("%s: Err = %v; want %v", c.what, l.Err(), c.err)
			}
		})
	}
}
