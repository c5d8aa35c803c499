// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Ear is a subscription that is kept up until its context ends.
type Ear struct {
	heard func(*Ear) // from Config

	hurry chan struct{} // has room for one: subscribe again at once

	mu     sync.Mutex // guards the fields below
	open   bool
	by     *Server        // that it is open at
	count  int            // how often it was opened
	closed driver.Instant // since when it is not open
	err    error          // why, if the server has said so
	news   chan struct{}  // closed when one of these changes
}

// Subscription is what an Ear hears from its opening until its end: over one connection, from
// one run of one server. The zero Subscription is none.
type Subscription struct {
	By    *Server
	count int
}

func newEar(heard func(*Ear)) *Ear {
	return &Ear{heard: heard, hurry: make(chan struct{}, 1), closed: driver.Now(), news: make(chan struct{})}
}

// Subscription returns the present one, if the Ear is open.
func (e *Ear) Subscription() Subscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return Subscription{}
	}
	return Subscription{e.by, e.count}
}

// Deaf returns since when nothing can be heard, or 0, and a channel that is closed when
// that may have changed.
func (e *Ear) Deaf() (since driver.Instant, news <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		since = e.closed
	}
	return since, e.news
}

// State returns whether messages can be heard, a channel that is closed when that
// may have changed, and why not if the server has refused or cannot be reached.
func (e *Ear) State() (open bool, news <-chan struct{}, refused error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open, e.news, e.err
}

func (e *Ear) set(by *Server, open bool, err error) {
	e.mu.Lock()
	switch {
	case open:
		e.by = by
		e.count++
	case e.open:
		e.closed = driver.Now()
	}
	e.open, e.err = open, err
	close(e.news)
	e.news = make(chan struct{})
	e.mu.Unlock()
	if open {
		e.heard(e)
	}
}

// keep calls receive, which subscribes and returns when that has ended or failed,
// again and again.
func (e *Ear) keep(ctx context.Context, receive func(context.Context) error) {
	const minPause, maxPause = 10 * time.Millisecond, time.Second // between attempts while the server is away
	pause := minPause
	for ctx.Err() == nil {
		began := driver.Now()
		err := receive(ctx)
		if refused(err) == nil && !undialled(err) {
			err = nil
		}
		e.set(nil, false, err)
		if driver.Now().Sub(began) > 10*maxPause {
			pause = minPause
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		case <-e.hurry:
			pause = minPause
		case <-ctx.Done():
		}
	}
}

// again makes keep subscribe at once, if it waits to do so.
func (e *Ear) again() {
	select {
	case e.hurry <- struct{}{}:
	default:
	}
}

// receive subscribes at a server and acts on what is heard. opened is called when
// that has begun.
func (e *Ear) receive(ctx context.Context, s *Server, subscribe rueidis.Completed, opened func()) error {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(m rueidis.PubSubSubscription) {
		if (m.Kind == "subscribe" || m.Kind == "ssubscribe") && m.Channel != s.newsChannel() {
			e.set(s, true, nil)
			opened()
		}
	})
	// The hook comes before the messages, and the end of this subscription is noted after them.
	return s.client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) {
		if m.Channel == s.newsChannel() {
			s.hearNews(m.Message)
			return
		}
		s.Hear(e.Subscription(), m.Message)
	})
}

// Listen subscribes in the background, until Close.
func (s *Server) Listen() {
	if s.Hear == nil {
		return
	}
	tries := 0
	s.work.Go(func() {
		s.ear.keep(s.ctx, func(ctx context.Context) error {
			tries++
			again := tries > 1
			err := s.receive(ctx, func() {
				if again {
					go s.rejoin()
				} else {
					go s.remind("") // what was told before is lost
				}
			})
			time.AfterFunc(soonSilent, s.tellSilent)
			return err
		})
		s.Hush() // again: it may have subscribed since
	})
}

// soonSilent is how long a server may be away without a word about it.
const soonSilent = time.Second

// tellSilent says that nothing is heard of the server, unless it refuses: then who asks for something is told.
func (s *Server) tellSilent() {
	const often = time.Minute
	since, _ := s.ear.Deaf()
	_, _, err := s.ear.State()
	now := driver.Now()
	if s.Silent == nil || refused(err) != nil || since == 0 || now.Sub(since) < soonSilent || s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	// An outage is told anew, and a long one again.
	news := s.told.silent < since || now.Sub(s.told.silent) > often
	if news {
		s.told.silent = now
	}
	s.mu.Unlock()
	if news {
		s.Silent(s.Addr, now.Sub(since))
	}
}

func (s *Server) receive(ctx context.Context, opened func()) error {
	err := s.ear.receive(ctx, s, s.client.B().Subscribe().Channel(s.newsChannel(), s.Channel+s.ID).Build(), opened)
	return Lacking(err, "subscribe")
}

// Ear returns what tells when messages about any key can be heard.
func (s *Server) Ear(string) *Ear { return s.ear }

// Leave undoes a call of Ear.
func (s *Server) Leave(string) {}

// rejoin makes sure soon after a restart that the server knows how long our
// leases can be: others, with shorter ones, may be the first to ask it for
// something, and would not wait for ours.
func (s *Server) rejoin() {
	s.astray.back()
	s.mu.Lock()
	stale := s.binding
	s.mu.Unlock()
	if stale != nil {
		// Of two that bind at the same time the later one takes the other's connection to
		// this run for one to the run before, which was heard of only just now then. But
		// the other may hang.
		select {
		case <-stale.done:
		case <-time.After(time.Second):
		}
	}
	// If it fails the next request fails too, and tells why.
	_, _ = s.bound(s.ctx, stale)
}

// Hush ends the subscription, so that nobody sends grants to who has gone: on a
// connection that is not ours it would go on.
func (s *Server) Hush() {
	if s.Owned || s.Hear == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Do(ctx, s.client.B().Unsubscribe().Channel(s.newsChannel(), s.Channel+s.ID).Build())
}
