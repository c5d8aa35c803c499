// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// A lease that its client may keep when nobody uses it says so in its record. The script
// that refuses somebody because of such a lease, or puts somebody into the queue, sends a
// message to the lease's client.

// recall is what others who want a lock have said, of an attempt and then of its grant.
// store.mu guards from.
type recall struct {
	from conn.Session // over which messages could be heard before the request was sent
	storekit.Outbox[driver.Recall]
}

// Recalls implements driver.Recaller.
func (s *store) Recalls() bool { return true }

// expectRecall makes messages about an attempt find it: they may be here before the answer.
// The function that it returns has to be called at the end.
func (a *attempt) expectRecall() (end func()) {
	if a.waiter.recall == nil {
		return func() {}
	}
	s, lease := a.s, a.req.Lease
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters[lease] = &a.waiter
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiters, lease)
	}
}

// passRecall gives what was heard to the grant. If it may not have been all, it says so.
// store.mu is held.
func (a *attempt) passRecall(g *grant) {
	r := a.waiter.recall
	if r == nil {
		return
	}
	if r.from == (conn.Session{}) || r.from != a.s.server.Listening(a.key) {
		r.Put(driver.Unheard)
	}
	g.recall = r
}

// unheard is called when messages may have been lost.
func (s *store) unheard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if g.recall != nil {
			g.recall.Put(driver.Unheard)
		}
	}
}

// OnWanted implements driver.Recallable.
func (g *grant) OnWanted(f func(driver.Recall)) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.recall == nil {
		return
	}
	g.recall.To(func(how driver.Recall) { go f(how) })
}
