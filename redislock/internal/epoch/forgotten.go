// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"strings"
	"time"
)

// Data can be lost while all clients are connected: FLUSHALL ends no connection. The
// first client that comes makes a new record then, and may know a shorter MaxTTL than
// that of the forgotten leases. So the script that makes the record notifies all
// participants at once, with the caller's id and the run. They report what they know
// while nothing is granted yet. A participant that is not connected at that moment does
// so when it is connected again: see rejoin.

const (
	remindTimes = 5
	remindAgain = 200 * time.Millisecond
)

// newsChannel is what all participants listen to.
func (s *Server) newsChannel() string { return s.Channel + "epoch" }

// hearNews handles the message that the record of a run was made.
func (s *Server) hearNews(message string) {
	if id, run, _ := strings.Cut(message, " "); id != s.ID {
		go s.remind(run)
	}
}

// remind joins the epochs of the run that this participant has joined before, and lets it ask for its
// leases. It does nothing if this is another run, unless that is empty, or if it was granted nothing.
func (s *Server) remind(run string) {
	if !s.writes.Load() || len(s.Scripts) == 0 {
		return
	}
	for range remindTimes {
		ctx, cancel := context.WithTimeout(s.ctx, s.Timeout)
		b, err := s.Bound(ctx, nil)
		if err == nil && (b.boot == "" || run != "" && b.boot != run) {
			cancel()
			return
		}
		if err == nil {
			err = s.joinAll(ctx, b)
		}
		cancel()
		if err == nil {
			if run != "" {
				s.missed()
			}
			return
		}
		select {
		case <-time.After(remindAgain):
		case <-s.ctx.Done():
			return
		}
	}
}

// joinAll joins the epochs that b has joined.
func (s *Server) joinAll(ctx context.Context, b *Binding) error {
	if s.Slots != nil {
		return s.Slots.JoinAll(ctx, s, b)
	}
	_, err := s.tell(ctx, b, s.joinArgs(Join, ""))
	return err
}
