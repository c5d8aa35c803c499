// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// keep has a quorum confirm the session at intervals, so that a new lease can be trusted at once; see confirm.
// keep also ends a session that has had no answer for a long time. For example, servers that have lost their data
// refuse a client that has seen later transactions, and package zk would try for ever.
//
// keep sends a request without waiting for the answer to the one before: on a slow link two windows would become
// too long.
func (s *session) keep() {
	for s.sleep(s.store.ctx, s.due()) {
		if s.due() > 0 {
			continue // renewals and new nodes have confirmed the session in the meantime
		}
		s.mu.Lock()
		s.touched = driver.Now()
		s.touchSoon(maxTouching)
		s.mu.Unlock()
	}
}

// maxTouching limits how many requests of keep are under way.
const maxTouching = 16

// touchSoon has a quorum confirm the session, unless the number of such requests under way has reached most. s.mu is
// held.
func (s *session) touchSoon(most int) {
	if s.touching < most {
		s.touching++
		s.store.work.Go(s.touchOnce)
	}
}

func (s *session) touchOnce() {
	_, err := s.touch()
	if err != nil && !errors.Is(err, errYoung) {
		s.sleep(s.store.ctx, retryPause)
	}
	s.mu.Lock()
	s.touching--
	s.wake()
	s.mu.Unlock()
	if errors.Is(err, zk.ErrSessionExpired) || err != nil && s.silentFor() > 3*s.granted() {
		s.end(errSession)
	}
}

// due returns how long keep waits before its next request.
func (s *session) due() time.Duration {
	pace := s.pace()
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.touched
	if n := len(s.touches); n > 0 {
		last = max(last, s.touches[n-1].sent)
	}
	return max(last, s.counted).Add(pace).Sub(driver.Now())
}

// pace returns the interval between the requests of keep. Two windows must fit into the slack, with some room; see
// confirm. The interval is also short enough to notice a silent connection. While the session has neither leases
// nor waiters, and its leases are renewed, two windows only have to fit into half of the TTL, because a lease may
// begin with that much less.
func (s *session) pace() time.Duration {
	tick, timeout := s.store.tick, s.granted()
	s.mu.Lock()
	trip, idle := s.trip, len(s.nodes) == 0 && len(s.watches) == 0
	s.mu.Unlock()
	room := s.store.slack(timeout) - 2*tick - 2*trip
	pace := max(room*2/5, tick/4, trip/maxTouching)
	if idle && !s.whole {
		pace = max(pace, s.ttl/4-tick-trip)
	}
	return min(pace, s.patience()/2)
}
