// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// Listen subscribes in the background, until Close.
func (s *Server) Listen() {
	if s.Hear == nil {
		return
	}
	tries := 0
	s.work.Go(func() {
		s.subscription.Keep(s.ctx, func(ctx context.Context) error {
			tries++
			again := tries > 1
			opened := false
			err := s.receive(ctx, func() {
				opened = true
				s.missed() // by those that began in between, too
				if again {
					go s.rejoin()
				} else {
					go s.remind("") // earlier messages are lost
				}
			})
			if opened {
				s.missed()
			}
			time.AfterFunc(soonSilent, s.tellSilent)
			return err
		})
		s.Hush() // again: it may have subscribed since
	})
}

func (s *Server) missed() {
	if s.Missed != nil {
		s.Missed(s.Conn)
	}
}

func (s *Server) report(news driver.News) {
	if s.News != nil {
		news.Server = s.Addr
		s.News(news)
	}
}

// soonSilent is how long a server may be away before that is reported.
const soonSilent = time.Second

// tellSilent reports that the server is silent. If it refuses instead, the requests
// return that.
func (s *Server) tellSilent() {
	const often = time.Minute
	since := s.subscription.Closed()
	_, _, err := s.subscription.State()
	now := driver.Now()
	if s.News == nil || conn.Refused(err) != nil || since == 0 || now.Sub(since) < soonSilent || s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	// Each outage is reported, and a long one again and again.
	news := s.told.silent < since || now.Sub(s.told.silent) > often
	if news {
		s.told.silent = now
	}
	s.mu.Unlock()
	if news {
		s.report(driver.News{Silent: now.Sub(since)})
	}
}

// receive subscribes, and handles the messages.
func (s *Server) receive(ctx context.Context, opened func()) error {
	own := s.Channel + s.ID
	err := s.Receive(ctx, s.subscription, s.Client.B().Subscribe().Channel(s.newsChannel(), own).Build(), own, opened)
	return conn.Lacking(err, "subscribe")
}

// Receive opens a subscription, of which the last channel is own, and handles the
// messages until it ends.
func (s *Server) Receive(ctx context.Context, sub *conn.Subscription, subscribe rueidis.Completed, own string, opened func()) error {
	return sub.Receive(ctx, s.Conn, subscribe, own, opened, func(from conn.Session, m rueidis.PubSubMessage) {
		if m.Channel == s.newsChannel() {
			s.hearNews(m.Message)
			return
		}
		s.Hear(from, m.Message)
	})
}

// rejoin makes sure soon after a restart that the server knows how long our leases can
// be: other clients, with shorter ones, may be the first to ask it, and would not wait
// for ours.
func (s *Server) rejoin() {
	s.astray.back()
	s.mu.Lock()
	stale := s.binding
	s.mu.Unlock()
	if stale != nil {
		// If two bind at the same time, the later one takes the other's connection to
		// this run for one to the run before, and thinks that it heard of that only
		// just now. So it waits for the other, but not for long, as that may hang.
		select {
		case <-stale.done:
		case <-time.After(time.Second):
		}
	}
	// If it fails, the next request returns the same error.
	_, _ = s.Bound(s.ctx, stale)
}

// Hush ends the subscription, so that no grants are sent to a participant that has
// gone: on a connection of the caller it would go on.
func (s *Server) Hush() {
	if s.Owned || s.Hear == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Do(ctx, s.Client.B().Unsubscribe().Channel(s.newsChannel(), s.Channel+s.ID).Build())
}
