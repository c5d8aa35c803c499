// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// saw reads the server's time, with which its reply to a request for a lock ends.
func (s *store) saw(by epoch.Source, sent driver.Instant, reply []rueidis.RedisMessage) {
	micros, err := reply[len(reply)-1].AsInt64()
	if err != nil {
		return
	}
	now := driver.Now()
	if step := by.Saw(sent, now, micros); step > 0 {
		s.setForward(by.Server, now, step)
	}
}

// setForward ends the leases of this participant that a server must have ended
// early. The others are renewed before their end.
func (s *store) setForward(by *epoch.Server, now driver.Instant, step time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if g.term.Stepped(step, now) && s.server.Has(by, g.key) {
			g.lose(&driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("the server's clock was set forward by %v", step.Round(time.Millisecond))})
		}
	}
}
