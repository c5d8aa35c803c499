// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// touch is a request that a server has answered.
type touch struct{ sent, answered driver.Instant }

// pace is how often a server is asked something: often enough for confirm, and so
// often that a connection on which no answer comes can be given up.
func (s *session) pace() time.Duration {
	timeout := s.granted()
	return min((timeout-s.store.longestTTL(timeout))/3, s.patience()/2)
}

// touched notes an answer to what was sent then.
func (s *session) touched(sent driver.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := driver.Now()
	s.answered = now
	if n := len(s.touches); n > 0 && sent < s.touches[n-1].sent.Add(s.store.tick/8) {
		return // as good as the last one: a thousand renewals need not all be remembered
	}
	s.touches = append(s.touches, touch{sent, now})
	// Of those that are old enough for every request still under way, the last one
	// is the best for ever.
	for len(s.touches) > 1 && s.touches[1].answered.Add(s.timeout) <= now {
		s.touches = s.touches[1:]
	}
}

// confirm notes that what was sent then has been carried out by a quorum, and
// returns whether a lease with the given TTL may be trusted from then on.
//
// The servers then knew the session, but from when does the leader count its
// timeout? Not from then: a server that is not the leader tells it of its sessions
// only when the leader asks, every half tick, and may be cut off from it before.
// What it was asked a tick before this request it has told the leader before it
// passed the request on, on the same connection. So the timeout counts from such
// an earlier request, and has to be longer than the TTL by what lies in between.
func (s *session) confirm(sent driver.Instant, ttl time.Duration) error {
	s.touched(sent)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range slices.Backward(s.touches) {
		if t.answered.Add(s.store.tick) <= sent {
			s.counted = max(s.counted, t.sent)
			break
		}
	}
	if sent.Add(ttl) > s.counted.Add(s.timeout) {
		return errYoung
	}
	return nil
}

var errYoung = fmt.Errorf("%w: it is not certain yet that the leader has heard of this client", driver.ErrUnavailable)

// timeoutFor returns the session timeout to ask for, for leases of up to ttl.
func (s *store) timeoutFor(ttl time.Duration) time.Duration {
	d := ttl + max(ttl/3, 2*s.tick)
	return (d + time.Millisecond - 1).Truncate(time.Millisecond) + time.Millisecond
}

// longestTTL returns the longest TTL of leases in a session with the given
// timeout. What is left must be enough for keep and confirm: a third until the next
// answer, a tick until the leader knows, and the way there.
func (s *store) longestTTL(timeout time.Duration) time.Duration {
	return timeout - max(timeout/4, 2*s.tick)
}

// patience is how long a connection may be silent: short enough to find another
// server before a lease ends. While there is no session yet there is nothing to
// be lost, and each server gets its share of the time.
func (s *session) patience() time.Duration {
	if s.sessionID() == 0 {
		return max(s.store.timeout/time.Duration(len(s.store.addrs)), time.Second)
	}
	return max(s.ttl/3, 200*time.Millisecond)
}
