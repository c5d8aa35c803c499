// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"strings"
	"time"
)

// A server can lose data while all clients stay connected, for example by FLUSHALL. The
// next client then makes a new record, and may know a shorter MaxTTL than the forgotten
// leases had. So the script that makes the record sends a message to all participants,
// with the caller's id and the run. During the quarantine they report what they know. A
// participant that is not connected at that moment reports when it connects again: see
// rejoin.

const (
	remindTimes = 5
	remindAgain = 200 * time.Millisecond
)

// newsChannel returns the channel to which all participants subscribe.
func (s *Server) newsChannel() string { return s.Channel + "epoch" }

// hearNews handles the message that a client has made a record.
func (s *Server) hearNews(message string) {
	if id, run, _ := strings.Cut(message, " "); id != s.ID {
		go s.remind(run)
	}
}

// remind joins again the epochs that this participant has joined before, so that their records know its MaxTTL. Then it
// reports missed messages, so that holders renew. run comes from the message; if it is empty, there was no message, and
// remind only joins. It does nothing if the server is now another run, or if this participant has never asked for a grant.
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
			err = s.joinAgain(ctx, b)
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

// joinAgain joins again the epochs that b has joined.
func (s *Server) joinAgain(ctx context.Context, b *Binding) error {
	if s.Slots != nil {
		return s.Slots.Rejoin(ctx, s, s.Client, b, b)
	}
	_, err := s.tell(ctx, b, s.Args(Join, "", true))
	return err
}
