// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Ear is a subscription that is kept up until its context ends.
type Ear struct {
	heard func(*Ear) // from Config

	mu   sync.Mutex // guards the fields below
	open bool
	err  error         // why it is not open, if the server has said so
	news chan struct{} // closed when one of the two changes
}

func newEar(heard func(*Ear)) *Ear { return &Ear{heard: heard, news: make(chan struct{})} }

// State returns whether messages can be heard, a channel that is closed when that
// may have changed, and why not if the server has refused or cannot be reached.
func (e *Ear) State() (open bool, news <-chan struct{}, refused error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open, e.news, e.err
}

func (e *Ear) set(open bool, err error) {
	e.mu.Lock()
	e.open, e.err = open, err
	close(e.news)
	e.news = make(chan struct{})
	e.mu.Unlock()
	if open {
		e.heard(e)
	}
}

// keep calls receive, which subscribes and returns when that has ended or failed,
// again and again. back is called when there is a subscription again after one
// was lost.
func (e *Ear) keep(ctx context.Context, receive func(context.Context) error, back func()) {
	var tries atomic.Int64
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(m rueidis.PubSubSubscription) {
		if m.Kind == "subscribe" || m.Kind == "ssubscribe" {
			e.set(true, nil)
			if tries.Load() > 1 {
				back()
			}
		}
	})
	const maxPause = time.Second // between attempts while the server is away
	pause := 10 * time.Millisecond
	for ctx.Err() == nil {
		began := driver.Now()
		tries.Add(1)
		err := receive(hooked)
		if refused(err) == nil && !undialled(err) {
			err = nil
		}
		e.set(false, err)
		if driver.Now().Sub(began) > 10*maxPause {
			pause = 10 * time.Millisecond
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// Listen subscribes in the background, until Close.
func (s *Server) Listen() {
	if s.Hear == nil {
		return
	}
	s.work.Go(func() {
		s.ear.keep(s.ctx, s.receive, func() { go s.rejoin() })
		s.Hush() // again: it may have subscribed since
	})
}

func (s *Server) receive(ctx context.Context) error {
	err := s.client.Receive(ctx, s.client.B().Subscribe().Channel(s.Channel+s.ID).Build(),
		func(m rueidis.PubSubMessage) { s.Hear(m.Message) })
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
	s.Do(ctx, s.client.B().Unsubscribe().Channel(s.Channel+s.ID).Build())
}
