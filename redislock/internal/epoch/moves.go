// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// A client that moves from one run to another knows that the first run has granted
// leases; the server of the second run does not. Those leases may last until MaxTTL after
// the client last heard from the first run. So the client starts a quarantine at the new
// server. As scripts are bound to a run, that server grants the client nothing before.
// The same applies to a run to which the client returns.
//
// All clients of the first run come to the second one, one after the other. One of them
// may have been asleep or cut off for an hour. So each client says when it last heard
// from the first run, and the server starts a quarantine only if the last one does not
// cover that time.

// moves is what a Server knows of the runs that it has used.
type moves struct {
	run   string // the present one; empty if there was none
	count int    // of changes of the run
	conns int64  // the number of connections that were made up to the last report to a server; see Conn.Made
	// away is when the client last heard from the run before. It is 0 if the present run
	// knows of the change. It keeps its value while the client tries to report the change.
	away driver.Instant
}

// moved records the run of b. left is the time at which the client last heard from the
// run before. If the server must be told of a change of the run, moved returns the time at
// which the client left the run before, otherwise 0.
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

// arrived records that the present run knows of the change.
func (s *Server) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves.away, s.moves.conns = 0, s.Made()
}

// hasMoved reports whether the server must still be told of a change of the run.
func (s *Server) hasMoved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moves.away != 0
}

// Stale returns an error if a reply to b's scripts must not be trusted: this participant
// has left the run of b in the meantime. That run may have executed the request without
// knowing of the leases that the next run has granted.
func (s *Server) Stale(b *Binding) *driver.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.move == s.moves.count {
		return nil
	}
	return &driver.Failure{Err: fmt.Errorf("%w: the answer is from another run of the server", driver.ErrUncertain), Maybe: true}
}

// Runs reports whether run is the run that this participant uses, so that a message from it can be trusted. It is false for
// an empty run.
func (s *Server) Runs(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return run != "" && run == s.moves.run
}

// left returns when the client last heard from the run before, if it has made a connection since
// the last report to a server; otherwise now.
func (s *Server) left() driver.Instant {
	s.mu.Lock()
	known := s.moves.conns
	s.mu.Unlock()
	return s.Left(known)
}
