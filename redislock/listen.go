// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// ear is the state of the subscription, guarded by store.mu. One channel brings
// all messages for this participant.
type ear struct {
	open bool
	err  error         // why it is not open, if the server has said so
	news chan struct{} // closed when one of the two changes
}

// listening returns whether no message can be heard, and a channel that is
// closed when that may have changed.
func (s *store) listening() (deaf bool, news <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ear.open, s.ear.news
}

func (s *store) setEar(open bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ear.open, s.ear.err = open, err
	close(s.ear.news)
	s.ear.news = make(chan struct{})
	if open {
		// What was sent meanwhile is lost, and the server may have dropped who
		// could not be reached: all of them look.
		for _, w := range s.waiters {
			w.granted = true
			w.poke()
		}
	}
}

// rejoin makes sure soon after a restart that the server knows how long our
// leases can be: others, with shorter ones, may be the first to ask it for
// something, and would not wait for ours.
func (s *store) rejoin() {
	s.mu.Lock()
	stale := s.binding
	s.mu.Unlock()
	// If it fails the next request fails too, and tells why.
	_, _ = s.bound(s.ctx, stale)
}

func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// listen keeps the subscription until the store is closed.
func (s *store) listen() {
	var tries atomic.Int64
	ctx := rueidis.WithOnSubscriptionHook(s.ctx, func(m rueidis.PubSubSubscription) {
		if m.Kind == "subscribe" {
			s.setEar(true, nil)
			if tries.Load() > 1 {
				go s.rejoin()
			}
		}
	})
	pause := 10 * time.Millisecond
	for s.ctx.Err() == nil {
		began := driver.Now()
		tries.Add(1)
		err := s.client.Receive(ctx, s.client.B().Subscribe().Channel(s.channel+s.id).Build(), s.hear)
		if _, refused := rueidis.IsRedisErr(err); !refused && !undialled(err) {
			err = nil
		}
		s.setEar(false, lacking(err, "subscribe"))
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

// hush ends the subscription, so that nobody sends grants to who has gone: on a
// connection that is not ours it would go on.
func (s *store) hush() {
	if s.owned {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.do(ctx, s.client.B().Unsubscribe().Channel(s.channel+s.id).Build())
}

// hear acts on one message. It must not block: replies wait behind it.
func (s *store) hear(m rueidis.PubSubMessage) {
	kind, rest, _ := strings.Cut(m.Message, " ")
	lease, rest, _ := strings.Cut(rest, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	w, g := s.waiters[lease], s.grants[lease]
	switch kind {
	case "grant":
		if w != nil {
			w.granted = true
			w.poke()
		} else if g == nil && s.ctx.Err() == nil {
			s.work.Go(func() { s.decline(lease, rest) })
		}
	case "first":
		if ms, err := strconv.ParseInt(rest, 10, 64); err == nil && w != nil {
			w.first, w.expires = true, time.Duration(ms)*time.Millisecond
			w.poke()
		}
	case "lost":
		if g != nil {
			g.lose(readNews(rest))
		}
	}
}

// decline gives on a lock that was handed to a waiter who has left.
func (s *store) decline(lease, key string) {
	ctx, cancel := context.WithTimeout(s.ctx, claimTTL)
	defer cancel()
	g := &grant{s: s, key: key, lease: lease}
	// If it cannot be told, the claim ends by itself.
	_, _ = g.release(ctx, lease)
}
