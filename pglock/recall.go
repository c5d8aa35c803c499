// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// A lease that its client may keep when nobody uses it says so in its record. The function
// that refuses somebody because of such a lease, or puts somebody into the queue, notifies
// the lease's client.

var (
	_ driver.Recaller   = (*store)(nil)
	_ driver.Recallable = (*grant)(nil)
)

// recall is what others who want a name have said, of an attempt and then of its grant.
// store.mu guards from.
type recall struct {
	from session // over which messages could be heard before the request was sent
	storekit.Outbox[driver.Recall]
}

// Recalls implements driver.Recaller. Behind a pooler no message comes, and each grant says
// so: nothing is kept there.
func (s *store) Recalls() bool { return true }

// expectRecall makes messages about an attempt find it: they may be here before the answer.
// The function that it returns has to be called at the end.
func (a *attempt) expectRecall() (end func()) {
	if a.waiter.recall == nil {
		return func() {}
	}
	s, lease := a.s, a.req.Lease
	a.waiter.wake = make(chan struct{}, 1) // before others see the waiter
	s.ear.start(s)
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
	if r.from == 0 || r.from != a.s.ear.session() {
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

// hearWanted acts on the message that others want the name of a lease. store.mu is held.
func (s *store) hearWanted(lease, waits string) {
	how := driver.Waits
	if waits == "0" {
		how = driver.Asks
	}
	if w := s.waiters[lease]; w != nil && w.recall != nil {
		w.recall.Put(how)
	} else if g := s.grants[lease]; g != nil && g.recall != nil {
		g.recall.Put(how)
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
