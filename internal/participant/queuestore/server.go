// SPDX-License-Identifier: Apache-2.0

// Package queuestore is a small driver.Store with a queue and events. Its server lives in memory. In a store of
// your own, Server is what your server does in one step for each name, and tell is a message on a subscription.
package queuestore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Server has the names, and changes one at a time.
type Server struct {
	mu    sync.Mutex
	names map[string]*name
}

type name struct {
	token  uint64   // of the last lease
	holder *entry   // nil if the name is free
	queue  []*entry // the first one is granted the name next
	broken *entry   // the last one that Break has ended
}

// entry is a lease, or a waiter for one.
type entry struct {
	of     *store
	req    driver.Request
	token  uint64
	waited bool           // somebody was waiting when it was granted
	since  driver.Instant // when the TTL began
	ttl    time.Duration
	at     time.Time // of the grant, or when it began to wait
	loss   *driver.LostError
}

func (e *entry) ends() driver.Instant { return e.since.Add(e.ttl) }

// answer is that to a request, and what a Granted event says. All clients are in this process, so the server's
// instants are theirs. Otherwise Since of an answer is when its request was sent, and an event has a Clock.
func (e *entry) answer(s *Server) driver.Answer {
	return driver.Answer{Granted: true, Token: e.token, Waited: e.waited, Since: e.since, Session: s}
}

// update runs f on a name, alone, when all leases that have expired have ended.
func (s *Server) update(ctx context.Context, of string, f func(n *name, now driver.Instant) error) error {
	if err := ctx.Err(); err != nil {
		return &driver.Failure{Err: err} // certainly nothing was recorded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = make(map[string]*name)
	}
	n := s.names[of]
	if n == nil {
		n = new(name)
		s.names[of] = n
	}
	now := driver.Now()
	s.expire(n, now)
	return f(n, now)
}

// expire ends a lease whose time is over.
func (s *Server) expire(n *name, now driver.Instant) {
	if n.holder != nil && now >= n.holder.ends() {
		s.free(n, now, &driver.LostError{Reason: driver.Expired})
	}
}

// free ends the lease on n and grants the name to the first waiter. It does both in one step: nobody comes in between.
// A client that has not ended its lease itself is told why it has ended.
func (s *Server) free(n *name, now driver.Instant, why *driver.LostError) {
	if old := n.holder; why != nil {
		old.loss = why
		old.of.tell(driver.Event{Kind: driver.Lost, Name: old.req.Name, Lease: old.req.Lease, Loss: why})
	}
	n.holder = nil
	if len(n.queue) == 0 {
		return
	}
	e := n.queue[0]
	n.queue = n.queue[1:]
	n.grant(e, now)
	e.of.tell(driver.Event{Kind: driver.Granted, Name: e.req.Name, Lease: e.req.Lease, Grant: e.answer(s)})
	n.look(now)
}

// grant makes e the holder.
func (n *name) grant(e *entry, now driver.Instant) {
	n.token++
	e.token, e.waited = n.token, len(n.queue) > 0
	e.since, e.ttl, e.at = now, e.req.TTL, time.Now()
	n.holder = e
}

// look tells the first waiter that it is the first, and when the name may be free. It looks then: no event comes
// when the client that holds the name is dead.
func (n *name) look(now driver.Instant) {
	if len(n.queue) > 0 {
		e := n.queue[0]
		e.of.tell(driver.Event{Kind: driver.Look, Name: e.req.Name, Lease: e.req.Lease, Grant: driver.Answer{Free: n.holder.ends().Sub(now)}})
	}
}

// place returns the place of a lease in the queue, or -1.
func (n *name) place(lease string) int {
	return slices.IndexFunc(n.queue, func(e *entry) bool { return e.req.Lease == lease })
}

// lost returns why a lease does not hold the name.
func (n *name) lost(lease string) *driver.LostError {
	if b := n.broken; b != nil && b.req.Lease == lease {
		return b.loss
	}
	return &driver.LostError{Reason: driver.Gone}
}

// info describes a name.
func (n *name) info(of string) *driver.Info {
	info := &driver.Info{Name: of, Token: driver.Token(n.token)}
	if h := n.holder; h != nil {
		info.Holders = []driver.Held{{
			Holder: *h.req.Holder, Lease: h.req.Lease, Token: driver.Token(h.token), Why: h.req.Why, Acquired: h.at,
			Expires: time.Now().Add(h.ends().Sub(driver.Now())),
		}}
	}
	for _, w := range n.queue {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Holder: *w.req.Holder, Lease: w.req.Lease, Why: w.req.Why, Since: w.at, Holds: w.req.Holds,
		})
	}
	return info
}

// holds reports whether a lease holds the name.
func (n *name) holds(lease string) bool { return n.holder != nil && n.holder.req.Lease == lease }
