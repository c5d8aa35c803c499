// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// keep has a quorum confirm the session again and again, so that a new lease can be trusted at once; see confirm.
// It ends a session that has had no answer for long. Servers that have lost their data refuse a client that has
// seen more than they know, and package zk would try for ever.
//
// A request does not wait for the answer to the one before it: on a slow link two windows would become too long.
func (s *session) keep() {
	for s.sleep(s.store.ctx, s.due()) {
		if s.due() > 0 {
			continue // renewals, and nodes that were made, have been confirmed meanwhile
		}
		s.mu.Lock()
		s.touched = driver.Now()
		s.touchSoon(maxTouching)
		s.mu.Unlock()
	}
}

// maxTouching is how many requests of keep may be under way.
const maxTouching = 16

// touchSoon has a quorum confirm the session, unless so many requests for that are under way. s.mu is held.
func (s *session) touchSoon(most int) {
	if s.touching < most {
		s.touching++
		s.store.work.Go(s.touchOnce)
	}
}

func (s *session) touchOnce() {
	_, err := s.touch(0, true)
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

// due returns how long keep waits before it asks a quorum again.
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

// pace is how often keep asks a quorum: so often that two windows fit into the slack, see confirm, with some room; and
// so often that a silent connection can be given up. While there is neither a lease nor a waiter, and leases are
// renewed, two windows only have to fit into half of the TTL: a lease may begin with so much less.
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
