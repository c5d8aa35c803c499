// SPDX-License-Identifier: Apache-2.0

package participant

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
		do   func(l *Lease, f func(error))
		told int
		err  error // nil: not lost
	}{
		{"told", func(l *Lease, f func(error)) { l.OnLost(f); l.lose(first); l.lose(second) }, 1, first},
		{"told late", func(l *Lease, f func(error)) { l.lose(first); l.lose(second); l.OnLost(f) }, 1, first},
		{"seen", func(l *Lease, f func(error)) { l.OnLost(f); l.note(first); l.lose(second) }, 0, first},
		{"given back", func(l *Lease, f func(error)) { l.OnLost(f); l.onLost = nil; l.lose(first) }, 0, first},
		{"not lost", func(l *Lease, f func(error)) { l.OnLost(f) }, 0, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &Lease{p: new(Participant)}
			told := make(chan error, 3)
			c.do(l, func(err error) { told <- err })
			synctest.Wait()
			if len(told) != c.told {
				t.Errorf("%s: the holder was told %d times; want %d", c.what, len(told), c.told)
			} else if c.told == 1 {
				if err := <-told; err != c.err {
					t.Errorf("%s: the holder was told %v; want %v", c.what, err, c.err)
				}
			}
			if c.err != nil && l.note(second) != c.err || c.err == nil && l.lost != nil {
				t.Errorf("%s: the loss is %v; want %v", c.what, l.lost, c.err)
			}
		})
	}
}
