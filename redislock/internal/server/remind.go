// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"strings"
	"time"
)

// Data can be lost while everybody is connected: FLUSHALL ends no connection. Whoever comes
// first makes a new record then, and may know of a shorter MaxTTL than the leases had
// that are forgotten. So the script that makes it tells all participants at once, with the caller's
// id and the run, and they bring what they know, while nothing is granted yet. A participant that
// is not connected at that moment does so when it is again: see rejoin.

const (
	remindTimes = 5
	remindAgain = 200 * time.Millisecond
)

// newsChannel is what all participants listen to.
func (s *Server) newsChannel() string { return s.Channel + "epoch" }

// hearNews acts on the message that the record of a run was made.
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
		b, err := s.bound(ctx, nil)
		if err == nil && (b.boot == "" || run != "" && b.boot != run) {
			cancel()
			return
		}
		if err == nil {
			err = s.joinBound(ctx, b)
		}
		cancel()
		if err == nil {
			if run != "" && s.Moved != nil {
				s.Moved(s)
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

func (s *Server) joinBound(ctx context.Context, b *binding) error {
	if s.cluster != nil {
		_, _, err := s.beginEpochs(ctx, s.client, b, b.joined.all(), s.Limit.args(join, ""))
		return err
	}
	args, err := s.joinArgs(join, "")
	if err != nil {
		return err
	}
	is, err := epochReply(s.Do(ctx, b.call(s.client, s.epochScript(), []string{s.EpochKey("")}, args)))
	if err == nil {
		s.Limit.learn(is)
	}
	return err
}
