// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// A client that comes to a run of a server from another run knows what the server does
// not: that leases were granted elsewhere. They may last for the longest TTL in use
// from when they could last be granted there, so the client starts a quarantine at the
// server. Scripts are bound to a run, so there is no grant before that on a server that
// is new to the client, or new again.
//
// Every client that was there comes, one after the other, and one of them may have been
// cut off, or asleep, for an hour. It says when it last heard from the other run, so
// that it does not start another quarantine.

// moves is what a Server knows of the runs that it has used.
type moves struct {
	run   string // the present one; empty if there has been none
	count int    // of changes
	conns int64  // the Contact's number of connections when the server learnt of the last change
	// away is when the one before was heard of last, until the present one has been
	// told, or 0. It does not change when that takes several attempts.
	away driver.Instant
}

// moved records which run b is for. If that is another run than before, the server must
// be told; then moved returns left, the time at which the former run was last heard
// from, and otherwise 0.
func (s *Server) moved(b *Binding, left driver.Instant) driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.moves
	if b.boot != "" && m.run != b.boot {
		if m.run != "" {
			m.away = left
		}
		m.run = b.boot
		m.count++
	}
	b.move = m.count
	return m.away
}

// arrived records that the server has been told.
func (s *Server) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves.away, s.moves.conns = 0, s.Made()
}

// hasMoved reports whether the server must be told that it is not the first one.
func (s *Server) hasMoved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moves.away != 0
}

// Stale returns why a reply to b's scripts must not be trusted, or nil: this
// participant has left the run of b in the meantime. If that run has executed the
// request nevertheless, it did not know that.
func (s *Server) Stale(b *Binding) *conn.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.move == s.moves.count {
		return nil
	}
	return &conn.Failure{Err: fmt.Errorf("%w: the answer is from another run of the server", driver.ErrUncertain), Maybe: true}
}

// Runs reports whether a message of the run with this id can be trusted: it is the run that this participant uses. A message
// of a run that does not say which it is, is never trusted.
func (s *Server) Runs(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return run != "" && run == s.moves.run
}

// left returns when the run before a new connection was last heard from.
func (s *Server) left() driver.Instant {
	s.mu.Lock()
	known := s.moves.conns
	s.mu.Unlock()
	return s.Left(known)
}
