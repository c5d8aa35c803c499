// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// sending is an instant before a request was sent, and the connection of that instant. If the request went over
// another connection, its answer proves nothing.
type sending struct {
	at   driver.Instant
	link *link
}

func (s *session) sending() sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sending{driver.Now(), s.link}
}

// touch is a request that a quorum has carried out.
type touch struct{ sent, answered driver.Instant }

// touch has a quorum confirm the session by a transaction that changes nothing. It returns what trusted returns.
// With ErrNoAuth a quorum has carried out the transaction, too.
func (s *session) touch() (driver.Instant, error) {
	sent := s.sending()
	_, err := s.conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	if err == nil || errors.Is(err, zk.ErrNoAuth) {
		return s.trusted(sent)
	}
	return 0, err
}

// confirm records that a quorum has carried out a request. It returns the instant from which a lease may be trusted:
// when the request was sent, or earlier if the session may end less than a TTL after that.
//
// The servers knew the session when the request was sent, but the leader may count the timeout from an earlier
// instant. The leader asks its servers about their sessions every half tick, and they may be cut off from the
// leader before it asks.
//
// A window is a tick in which the client sends nothing. If the leader runs in a window, it first learns of the
// request that preceded the window, and then gets the request that follows, as both come over the same connection.
// A pause of the leader lies in one window, however long it is: if the leader has carried out a request between
// two windows, it ran in one of them. So the timeout counts from the last request before two windows, or later.
//
// Reads do not count, because a server answers them without the leader.
func (s *session) confirm(sent sending) (since driver.Instant, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := driver.Now()
	s.answered = now
	if sent.link == nil || sent.link != s.link {
		return 0, errYoung // the request may have gone over another connection
	}
	if known, between := s.before(sent.at); known {
		if known, first := s.before(between.sent); known {
			s.counted = max(s.counted, first.sent)
		}
	}
	s.trip = now.Sub(sent.at)
	s.last = max(s.last, sent.at)
	s.keepTouch(touch{sent.at, now})
	s.wake()
	return s.trust(sent.at, s.ttl), nil
}

// wake wakes the calls of confirmed. s.mu is held.
func (s *session) wake() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// trust returns the instant from which a lease with the given TTL may be trusted, if its node and the session
// existed when a request was sent over the present connection, at the instant sent. s.mu is held.
func (s *session) trust(sent driver.Instant, ttl time.Duration) driver.Instant {
	return min(sent, s.counted.Add(s.timeout-ttl))
}

// before returns the last touch whose answer came at least a window before the instant at.
func (s *session) before(at driver.Instant) (known bool, t touch) {
	for _, t := range slices.Backward(s.touches) {
		if t.answered.Add(s.store.tick) <= at {
			return true, t
		}
	}
	return false, touch{}
}

// keepTouch adds a touch to s.touches. s.mu is held.
func (s *session) keepTouch(t touch) {
	if n := len(s.touches); n > 0 && t.sent < s.touches[n-1].sent.Add(s.store.tick/8) {
		return // the last touch serves as well; this keeps the list short
	}
	s.touches = append(s.touches, t)
	// A touch that is older than the timeout is useless.
	for len(s.touches) > 1 && s.touches[1].answered.Add(s.timeout) <= t.answered {
		s.touches = s.touches[1:]
	}
}

var errYoung = fmt.Errorf("%w: it is not certain yet that the leader has heard of this client: try again", driver.ErrUnavailable)

// trusted calls confirm for a lease that begins. It returns errYoung unless enough of the TTL is left: a third, or
// the whole TTL if the lease is not renewed.
func (s *session) trusted(sent sending) (driver.Instant, error) {
	since, err := s.confirm(sent)
	least := sent.at
	if !s.whole {
		least = least.Add(-s.ttl * 2 / 3)
	}
	if err == nil && since < least {
		return 0, errYoung
	}
	return since, err
}

// inTime returns errYoung if a lease that begins now would end before its first renewal is answered.
func (s *session) inTime(since driver.Instant) error {
	if !s.whole && since.Add(s.ttl).Sub(driver.Now()) < get(s, &s.trip)*5/4 {
		return errYoung
	}
	return nil
}

// standing returns the instant from which the lease may be trusted, by the last confirmation of the session, or
// errYoung. A confirmation proves the session, and the watch on the node proves the node: the server reports the
// deletions of this node and of the nodes before it in the order in which they happen. So if the watch has not
// fired, the node existed when the last node before it was deleted. session.mu is held.
func (n *node) standing() (driver.Instant, error) {
	s := n.s
	if s.whole || !n.watching() || s.last == 0 {
		return 0, errYoung
	}
	since := s.trust(s.last, s.ttl)
	if since < driver.Now().Add(-s.ttl/2) {
		return 0, errYoung
	}
	return since, nil
}

// purpose says which leases share a session.
type purpose struct {
	ttl   time.Duration // of its leases
	whole bool          // the leases are not renewed, so they need trust for their whole TTL
}

func purposeOf(req *driver.Request) purpose { return purpose{req.TTL, !req.Renewed} }

// slack returns how much longer a session with the given timeout must last than the trust in its leases: two
// ticks, and some requests; see confirm.
func (s *store) slack(timeout time.Duration) time.Duration { return max(timeout/4, 3*s.tick) }

// fewTicks is the least number of ticks in a session that may be as long as the TTL. After the slack, enough of
// the TTL is left for a renewal.
const fewTicks = 8

// timeoutFor returns the session timeout to ask for. A client that was killed keeps others out for that time.
func (s *store) timeoutFor(p purpose) time.Duration {
	d := p.ttl + max(p.ttl/3, 3*s.tick)
	if !p.whole {
		d = max(p.ttl, min(d, fewTicks*s.tick))
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond) + time.Millisecond
}

// longestTTL returns the longest TTL that a lease can have in a session with the given timeout.
func (s *store) longestTTL(timeout time.Duration, whole bool) time.Duration {
	if !whole && timeout >= fewTicks*s.tick {
		return timeout
	}
	return timeout - s.slack(timeout)
}

// longestTTL returns the longest TTL that a lease can have in the session, with the timeout that the servers have
// granted.
func (s *session) longestTTL() time.Duration { return s.store.longestTTL(s.granted(), s.whole) }

// silentFor returns the time since a server has answered last.
func (s *session) silentFor() time.Duration { return driver.Now().Sub(get(s, &s.answered)) }

// patience returns how long a connection may be silent. The time is short enough to find another server before a
// lease ends. Until the session has begun, no lease can end, and each server gets its share of ConnectTimeout.
func (s *session) patience() time.Duration {
	if s.sessionID() == 0 {
		return max(s.store.timeout/time.Duration(len(s.store.addrs)), time.Second)
	}
	return max(s.ttl/3, 200*time.Millisecond)
}
