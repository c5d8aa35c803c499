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
	tries, own := 0, s.Channel+s.ID
	s.work.Go(func() {
		s.subscription.Keep(s.ctx, func(ctx context.Context) error {
			tries++
			again := tries > 1
			opened := false
			err := s.Receive(ctx, s.subscription, s.Client.B().Subscribe().Channel(s.newsChannel(), own).Build(), own, func() {
				opened = true
				s.missed() // again, for waits and leases that began while the subscription was closed
				if again {
					go s.rejoin()
				} else {
					go s.remind("") // a message about a new record may have been lost before
				}
			})
			if opened {
				s.missed()
			}
			time.AfterFunc(soonSilent, s.tellSilent)
			return conn.Lacking(err, "subscribe")
		})
		s.Hush() // again: the goroutine may have subscribed after the first Hush
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

// soonSilent is how long a server may be silent before tellSilent reports it.
const soonSilent = time.Second

// tellSilent reports that the server has been silent for soonSilent. It reports nothing if
// the server refuses the subscription, since requests return that error.
func (s *Server) tellSilent() {
	const often = time.Minute
	silence := s.subscription.Silence()
	if s.News == nil || silence < soonSilent || s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	now := driver.Now()
	// Report each outage once, and a long one every minute.
	news := s.told.silent < now.Add(-silence) || now.Sub(s.told.silent) > often
	if news {
		s.told.silent = now
	}
	s.mu.Unlock()
	if news {
		s.report(driver.News{Silent: silence})
	}
}

// Receive opens a subscription, whose last channel is own, and handles the messages until
// it ends.
func (s *Server) Receive(ctx context.Context, sub *conn.Subscription, subscribe rueidis.Completed, own string, opened func()) error {
	return sub.Receive(ctx, s.Conn, subscribe, own, opened, func(from conn.Session, m rueidis.PubSubMessage) {
		if m.Channel == s.newsChannel() {
			s.hearNews(m.Message)
			return
		}
		s.Hear(from, m.Message)
	})
}

// rejoin reports this participant's MaxTTL to the server soon after a restart. Otherwise
// other clients, with a shorter MaxTTL, could be the first to ask the server, and would
// not wait for the leases of this participant.
func (s *Server) rejoin() {
	s.astray.back()
	s.mu.Lock()
	stale := s.binding
	s.mu.Unlock()
	if stale != nil {
		// Two goroutines must not bind at the same time. The later one would take the
		// connection of the earlier one for a connection to the run before, and so would
		// think that it heard from that run just now. So wait for a Binding under way, but
		// only for a second, as it may hang.
		select {
		case <-stale.done:
		case <-time.After(time.Second):
		}
	}
	// If it fails, the next request returns the same error.
	_, _ = s.Bound(s.ctx, stale)
}

// Hush ends the subscription on a client of the caller, which outlives the Server.
// Otherwise the server would go on to grant leases to a participant that has gone.
func (s *Server) Hush() {
	if s.Owned || s.Hear == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Do(ctx, s.Client.B().Unsubscribe().Channel(s.newsChannel(), s.Channel+s.ID).Build())
}
