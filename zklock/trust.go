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

// sending is when a request was sent at the earliest, and over which connection. What a
// request that was sent over another one shows is not known.
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

// pace is how often a quorum is asked something: so often that two windows fit into
// the slack, see confirm, with some room; and so
// often that a connection on which no answer comes can be given up. While there is neither a lease
// nor a waiter, two windows have to fit into half of the TTL: so much of it may have gone when
// a lease begins, unless it is not renewed.
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

// touch has a quorum confirm the session, and returns since when a lease may be trusted, as trusted does. It
// changes nothing. A client that may not read the node is told so by a quorum, too.
func (s *session) touch(ttl time.Duration, renewed bool) (driver.Instant, error) {
	sent := s.sending()
	_, err := s.conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	if err == nil || errors.Is(err, zk.ErrNoAuth) {
		return s.trusted(sent, ttl, renewed)
	}
	return 0, err
}

// confirm notes that what was sent then has been carried out by a quorum, and
// returns since when a lease with the given TTL may be trusted: since that sending, or
// less if the session may end earlier than one TTL after it.
//
// The servers then knew the session, but from when does the leader count its
// timeout? Not from then: a server that is not the leader tells it of its sessions
// only when the leader asks, every half tick, and may be cut off from it before. What
// the server was asked before a window of a tick it has told the leader before it
// passes on what comes after the window, on the same connection: unless the leader did
// not run in the window. A leader that pauses, for however long, does so in one
// window: with a request that it has answered between two windows, it ran in
// one of them. So the timeout counts from a request before two windows.
//
// What reads show is not counted at all: the server answers them by itself.
func (s *session) confirm(sent sending, ttl time.Duration) (since driver.Instant, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := driver.Now()
	s.answered = now
	if sent.link == nil || sent.link != s.link {
		return 0, errYoung // it may have gone over any connection
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
	return s.trust(sent.at, ttl), nil
}

// wake wakes who waits for news of the session. s.mu is held.
func (s *session) wake() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// trust returns since when a lease with the given TTL may be trusted that was there, with the session,
// at a sending over the present connection. s.mu is held.
func (s *session) trust(sent driver.Instant, ttl time.Duration) driver.Instant {
	return min(sent, s.counted.Add(s.timeout-ttl))
}

// before returns the last touch that was answered a window before at.
func (s *session) before(at driver.Instant) (known bool, t touch) {
	for _, t := range slices.Backward(s.touches) {
		if t.answered.Add(s.store.tick) <= at {
			return true, t
		}
	}
	return false, touch{}
}

// keepTouch remembers a touch. s.mu is held.
func (s *session) keepTouch(t touch) {
	if n := len(s.touches); n > 0 && t.sent < s.touches[n-1].sent.Add(s.store.tick/8) {
		return // as good as the last one: a thousand renewals need not all be remembered
	}
	s.touches = append(s.touches, t)
	// What is older than a session lasts has no use.
	for len(s.touches) > 1 && s.touches[1].answered.Add(s.timeout) <= t.answered {
		s.touches = s.touches[1:]
	}
}

var errYoung = fmt.Errorf("%w: it is not certain yet that the leader has heard of this client", driver.ErrUnavailable)

// trusted is confirm for a lease that begins: it returns errYoung unless enough of the TTL is
// left. That is all of it for a lease that is not renewed, and else a third.
func (s *session) trusted(sent sending, ttl time.Duration, renewed bool) (driver.Instant, error) {
	since, err := s.confirm(sent, ttl)
	least := sent.at
	if renewed {
		least = least.Add(-ttl * 2 / 3)
	}
	if err == nil && since < least {
		err = errYoung
	}
	return since, err
}

// inTime returns errYoung if a lease that begins now cannot be renewed before it ends.
func (s *session) inTime(since driver.Instant, req *driver.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.Renewed && since.Add(req.TTL).Sub(driver.Now()) < s.trip*5/4 {
		return errYoung
	}
	return nil
}

// standing returns since when the lease may be trusted by the last request that a quorum
// has carried out for the session, as trusted does. That request says nothing of the
// node. The watch on it does: the server tells of it and of the nodes before it in the order in which
// they are deleted. If nothing has come of it, it was not deleted before the last of those. session.mu is held.
func (n *node) standing() (driver.Instant, error) {
	s := n.s
	if !n.renew || !n.watching() || s.last == 0 {
		return 0, errYoung
	}
	since := s.trust(s.last, n.ttl)
	if since < driver.Now().Add(-n.ttl/2) {
		return 0, errYoung
	}
	return since, nil
}

// purpose is what a session is for.
type purpose struct {
	ttl time.Duration // the longest TTL of its leases
	// They are not renewed, and so are trusted for all of their TTL.
	whole bool
}

func purposeOf(req *driver.Request) purpose { return purpose{req.TTL, !req.Renewed} }

// slack returns what must be enough for confirm in a session with the given timeout: two ticks,
// and some requests.
func (s *store) slack(timeout time.Duration) time.Duration { return max(timeout/4, 3*s.tick) }

// fewTicks is how many ticks a session has to last for the slack to be a part of the TTL: what is left of
// that is enough to renew.
const fewTicks = 8

// timeoutFor returns the session timeout to ask for. It is how long a client that was killed keeps
// others out.
func (s *store) timeoutFor(p purpose) time.Duration {
	d := p.ttl + max(p.ttl/3, 3*s.tick)
	if !p.whole {
		d = max(p.ttl, min(d, fewTicks*s.tick))
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond) + time.Millisecond
}

// longestTTL returns the longest TTL of leases in a session with the given timeout.
func (s *store) longestTTL(timeout time.Duration, whole bool) time.Duration {
	if !whole && timeout >= fewTicks*s.tick {
		return timeout
	}
	return timeout - s.slack(timeout)
}

// longestTTL returns the longest TTL that the session can have, as the servers have granted it.
func (s *session) longestTTL() time.Duration { return s.store.longestTTL(s.granted(), s.whole) }

// silentFor returns for how long nothing has been heard of the servers.
func (s *session) silentFor() time.Duration { return driver.Now().Sub(s.lastAnswer()) }

// patience is how long a connection may be silent: short enough to find another
// server before a lease ends. While there is no session yet there is nothing to
// be lost, and each server gets its share of the time.
func (s *session) patience() time.Duration {
	if s.sessionID() == 0 {
		return max(s.store.timeout/time.Duration(len(s.store.addrs)), time.Second)
	}
	return max(s.ttl/3, 200*time.Millisecond)
}
