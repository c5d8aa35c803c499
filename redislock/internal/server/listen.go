// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// ear is the state of the subscription, guarded by Server.mu. One channel brings
// all messages for this participant.
type ear struct {
	open bool
	err  error         // why it is not open, if the server has said so
	news chan struct{} // closed when one of the two changes
}

// Listening returns whether messages can be heard, a channel that is closed when
// that may have changed, and why not if the server has refused or cannot be
// reached.
func (s *Server) Listening() (open bool, news <-chan struct{}, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ear.open, s.ear.news, s.ear.err
}

func (s *Server) setEar(open bool, err error) {
	s.mu.Lock()
	s.ear.open, s.ear.err = open, err
	close(s.ear.news)
	s.ear.news = make(chan struct{})
	s.mu.Unlock()
	if open {
		s.Heard()
	}
}

// rejoin makes sure soon after a restart that the server knows how long our
// leases can be: others, with shorter ones, may be the first to ask it for
// something, and would not wait for ours.
func (s *Server) rejoin() {
	s.mu.Lock()
	stale := s.binding
	s.mu.Unlock()
	// If it fails the next request fails too, and tells why.
	_, _ = s.bound(s.ctx, stale)
}

// Listen subscribes in the background, until Close.
func (s *Server) Listen() { s.work.Go(s.listen) }

func (s *Server) listen() {
	var tries atomic.Int64
	ctx := rueidis.WithOnSubscriptionHook(s.ctx, func(m rueidis.PubSubSubscription) {
		if m.Kind == "subscribe" {
			s.setEar(true, nil)
			if tries.Load() > 1 {
				go s.rejoin()
			}
		}
	})
	const maxPause = time.Second // between attempts while the server is away
	pause := 10 * time.Millisecond
	for s.ctx.Err() == nil {
		began := driver.Now()
		tries.Add(1)
		err := s.client.Receive(ctx, s.client.B().Subscribe().Channel(s.Channel+s.ID).Build(), func(m rueidis.PubSubMessage) { s.Hear(m.Message) })
		if _, refused := rueidis.IsRedisErr(err); !refused && !undialled(err) {
			err = nil
		}
		s.setEar(false, Lacking(err, "subscribe"))
		if driver.Now().Sub(began) > 10*maxPause {
			pause = 10 * time.Millisecond
		}
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// Hush ends the subscription, so that nobody sends grants to who has gone: on a
// connection that is not ours it would go on.
func (s *Server) Hush() {
	if s.Owned {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Do(ctx, s.client.B().Unsubscribe().Channel(s.Channel+s.ID).Build())
}
