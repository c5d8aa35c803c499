// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Subscription is a subscription that Keep opens again whenever it ends.
type Subscription struct {
	opened func(*Subscription)

	hurry chan struct{} // of size 1; tells Keep to subscribe at once

	mu     sync.Mutex // guards the fields below
	open   bool
	by     *Conn          // at which it is open
	count  int            // how often it was opened
	closed driver.Instant // since when it is not open
	err    error          // why not, if the server has refused or cannot be reached
	news   chan struct{}  // closed when one of the fields above changes
}

// Session identifies a Subscription from one opening to its end. In that time all messages
// come over one connection, from one run of one server. The zero Session means that there
// is none.
type Session struct {
	By    *Conn
	count int
}

// NewSubscription returns a Subscription that is not open yet; see Keep. It calls opened each time when
// it has opened.
func NewSubscription(opened func(*Subscription)) *Subscription {
	return &Subscription{opened: opened, hurry: make(chan struct{}, 1), closed: driver.Now(), news: make(chan struct{})}
}

// Session returns the present Session. If there is none, it returns the zero Session, and an error if the server has
// refused or cannot be reached.
func (s *Subscription) Session() (now Session, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return Session{}, s.err
	}
	return Session{s.by, s.count}, nil
}

var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Ready returns a channel that is closed when the subscription is open, or an attempt to open it has failed.
func (s *Subscription) Ready() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open || s.err != nil {
		return ready
	}
	return s.news
}

// Silence returns for how long the subscription has not been open; 0 if it is open, or if the server has refused it.
func (s *Subscription) Silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open || Refused(s.err) != nil {
		return 0
	}
	return driver.Now().Sub(s.closed)
}

func (s *Subscription) set(by *Conn, open bool, err error) {
	s.mu.Lock()
	switch {
	case open:
		s.by = by
		s.count++
	case s.open:
		s.closed = driver.Now()
	}
	s.open, s.err = open, err
	close(s.news)
	s.news = make(chan struct{})
	s.mu.Unlock()
	if open {
		s.opened(s)
	}
}

// Keep calls receive again and again until ctx ends. receive subscribes, and returns when the
// subscription has ended or failed.
func (s *Subscription) Keep(ctx context.Context, receive func(context.Context) error) {
	const minPause, maxPause = 10 * time.Millisecond, time.Second // between attempts while the server is away
	pause := minPause
	for ctx.Err() == nil {
		began := driver.Now()
		err := receive(ctx)
		now, _ := s.Session()
		if Refused(err) == nil && !undialled(err) {
			err = nil
		}
		s.set(nil, false, err)
		if now != (Session{}) && driver.Now().Sub(began) > maxPause {
			pause = minPause // otherwise pauses would only grow, if a server restarts now and then
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		case <-s.hurry:
			pause = minPause
		case <-ctx.Done():
		}
	}
}

// Retry ends a pause of Keep, so that it subscribes at once.
func (s *Subscription) Retry() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// Receive subscribes to channels at a server and calls hear with each message. own is the
// last of the channels: when the server confirms it, all are open, and Receive calls opened.
func (s *Subscription) Receive(ctx context.Context, at *Conn, subscribe rueidis.Completed, own string, opened func(), hear func(Session, rueidis.PubSubMessage)) error {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(m rueidis.PubSubSubscription) {
		if (m.Kind == "subscribe" || m.Kind == "ssubscribe") && m.Channel == own {
			s.set(at, true, nil)
			opened()
		}
	})
	// rueidis calls the hook before it delivers messages, and Keep ends the session after
	// Receive has returned. So Session returns the session of the message.
	return at.Client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) {
		now, _ := s.Session()
		hear(now, m)
	})
}
