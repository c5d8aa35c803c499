// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A client that comes to a run of a server from another one knows what the server
// does not: that leases were granted elsewhere. They may last for the longest TTL
// in use from when they could be got there last, so it makes the server close.
// Scripts are bound to a run, so no grant is made before that on a server that is
// new to the client, or new again.
//
// Every client that was there comes, one after the other, and one of them may
// have been cut off, or asleep, for an hour. So that it does not close the server
// again, it says when it heard of the other run last.

// moves is what a Server knows of the runs that it was with.
type moves struct {
	run   string // the present one; empty if there has been none
	count int    // of changes
	owed  bool   // the present one has not been told of the last change
	conns int64  // Contact's when it was told
}

// moved notes which run b is for, and reports whether the server must be told that
// this participant was with another one.
func (s *Server) moved(b *binding) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.moves
	if b.boot != "" && m.run != b.boot {
		m.owed = m.run != ""
		m.run = b.boot
		m.count++
	}
	b.move = m.count
	return m.owed
}

// arrived notes that the server has been told.
func (s *Server) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves.owed = false
	if s.Contact != nil {
		s.moves.conns = s.Contact.conns.Load()
	}
}

// stale returns why a reply to b's scripts is not to be believed, or nil: b was
// bound to a run that this participant has left in the meantime. If the request
// was executed by that run nevertheless, nobody has told it.
func (s *Server) stale(b *binding) *Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.move == s.moves.count {
		return nil
	}
	return &Failure{Err: fmt.Errorf("%w: the answer is from another run of the server", driver.ErrUncertain), Maybe: true}
}

// away returns when the run before a new connection was heard of last.
func (s *Server) away() driver.Instant {
	s.mu.Lock()
	known := s.moves.conns
	s.mu.Unlock()
	if c := s.Contact; c != nil && c.conns.Load() > known {
		// What is idle is pinged each second.
		return min(driver.Now(), driver.Instant(c.left.Load()).Add(2*time.Second))
	}
	return driver.Now()
}
