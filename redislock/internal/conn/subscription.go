// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Subscription is kept up until its context ends.
type Subscription struct {
	opened func(*Subscription)

	hurry chan struct{} // has room for one: subscribe again at once

	mu     sync.Mutex // guards the fields below
	open   bool
	by     *Conn          // that it is open at
	count  int            // how often it was opened
	closed driver.Instant // since when it is not open
	err    error          // why, if the server has said so
	news   chan struct{}  // closed when one of these changes
}

// Session is a Subscription from its opening until its end: over one connection, from
// one run of one server. The zero Session is none.
type Session struct {
	By    *Conn
	count int
}

// NewSubscription returns one that is not open yet; see Keep. opened is called when it is, for the
// first time or again.
func NewSubscription(opened func(*Subscription)) *Subscription {
	return &Subscription{opened: opened, hurry: make(chan struct{}, 1), closed: driver.Now(), news: make(chan struct{})}
}

// Session returns the present one, if there is one, or the error if the server has refused or cannot be reached.
func (s *Subscription) Session() (now Session, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return Session{}, s.err
	}
	return Session{s.by, s.count}, nil
}

var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Ready returns a channel that is closed when messages can be heard, or it is known that they cannot.
func (s *Subscription) Ready() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open || s.err != nil {
		return ready
	}
	return s.news
}

// Closed returns since when nothing can be heard, or 0.
func (s *Subscription) Closed() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		return 0
	}
	return s.closed
}

// State returns whether messages can be heard, a channel that is closed when that may
// have changed, and the error if the server has refused or cannot be reached.
func (s *Subscription) State() (open bool, news <-chan struct{}, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.news, s.err
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

// Keep calls receive, which subscribes and returns when that has ended or failed,
// again and again.
func (s *Subscription) Keep(ctx context.Context, receive func(context.Context) error) {
	const minPause, maxPause = 10 * time.Millisecond, time.Second // between attempts while the server is away
	pause := minPause
	for ctx.Err() == nil {
		began := driver.Now()
		err := receive(ctx)
		open, _, _ := s.State()
		if Refused(err) == nil && !undialled(err) {
			err = nil
		}
		s.set(nil, false, err)
		if open && driver.Now().Sub(began) > maxPause {
			pause = minPause // else the pauses of a server that restarts now and then would only grow
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

// Retry makes Keep subscribe at once, if it waits to do so.
func (s *Subscription) Retry() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// Receive subscribes to channels at a server and calls hear with each message. The last
// of the channels is own: when its subscription is confirmed, all are, and opened is
// called.
func (s *Subscription) Receive(ctx context.Context, at *Conn, subscribe rueidis.Completed, own string, opened func(), hear func(Session, rueidis.PubSubMessage)) error {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(m rueidis.PubSubSubscription) {
		if (m.Kind == "subscribe" || m.Kind == "ssubscribe") && m.Channel == own {
			s.set(at, true, nil)
			opened()
		}
	})
	// The hook comes before the messages, and the end of this session is noted after them.
	return at.Client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) {
		now, _ := s.Session()
		hear(now, m)
	})
}
