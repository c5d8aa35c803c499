// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/internal/nodewire"
)

// named is what a node keeps about one name. Times are by the node's clock.
type named struct {
	locks  []*lock       // one exclusive lock, or any number of shared locks
	newest time.Duration // when the node granted the last of them
	floor  floor
	wishes map[string]time.Duration
	ended  map[string]mark
	queue  []*place
	listen []*place // of readers, in the order in which they came
}

// floor is the largest token stored, and the largest tokens that stand: of all leases, and of
// writers.
type floor struct {
	token, stands, writer uint64
	owner                 string // the lease that token was stored for
	undo                  *floor // what stood before owner stored a token
}

func (f *floor) store(p nodewire.Proposal) {
	undo := f.undo
	if f.owner != p.Lease {
		undo = &floor{stands: f.stands, writer: f.writer}
	}
	writer := p.Token
	if p.Shared {
		writer = f.writer
	}
	*f = floor{p.Token, p.Token, writer, p.Lease, undo}
}

// fail takes back the token of an attempt that has failed.
func (f *floor) fail(lease string) {
	if f.undo != nil && f.owner == lease {
		f.stands, f.writer = f.undo.stands, f.undo.writer
	}
}

// lock is a lock that has not ended.
type lock struct {
	nodewire.Lock
	granted, ends time.Duration
}

func newNamed() *named {
	return &named{wishes: make(map[string]time.Duration), ended: make(map[string]mark)}
}

// of returns the lock of a lease, or nil.
func (s *named) of(lease string) *lock {
	for _, l := range s.locks {
		if l.Lease == lease {
			return l
		}
	}
	return nil
}

// dequeue takes a lease out of the queue, or from the listeners, and reports whether it was there.
func (s *named) dequeue(lease string) bool {
	before := len(s.queue) + len(s.listen)
	s.leave(func(p *place) bool { return p.Lease == lease })
	return len(s.queue)+len(s.listen) < before
}

func (s *named) leave(gone func(*place) bool) {
	s.queue, s.listen = slices.DeleteFunc(s.queue, gone), slices.DeleteFunc(s.listen, gone)
}

func (s *named) exclusive() bool { return len(s.locks) > 0 && !s.locks[0].Shared }

// takable reports whether the proposal may take a lock. n.mu is held.
func (n *node) takable(s *named, p nodewire.Proposal) bool {
	switch {
	case p.Shared:
		return !s.exclusive() || n.w.plan.Off.Writers
	}
	return len(s.locks) == 0
}

// whose says why the node refuses a proposal of a lease without a lock.
func (n *node) whose(s *named) string {
	switch {
	case len(s.locks) == 0:
		return "the lease is not known here"
	case !s.exclusive():
		return "it is shared"
	}
	return fmt.Sprintf("lease %d has it", n.w.number(s.locks[0].Lease))
}

// sharing returns the text of an event about a lock.
func sharing(shared bool) string {
	if shared {
		return "shared"
	}
	return ""
}
