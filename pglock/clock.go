// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// saw reads the server's time in an answer. A step forward ends the leases of this
// participant that the server must have ended early; the others are renewed before.
func (s *store) saw(sent driver.Instant, micros int64) {
	now := driver.Now()
	step, news := s.clock.Saw(sent, now, micros)
	if news {
		s.news.Put(driver.News{Server: s.where, Step: step})
	}
	if step <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if g.term.Stepped(step, now) {
			g.lose(&driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("the server's clock was set forward by %v", step.Round(time.Millisecond))})
		}
	}
}

// OnNews implements driver.Reporter.
func (s *store) OnNews(f func(driver.News)) { s.news.To(f) }
