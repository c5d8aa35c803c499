// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"sync"

	"github.com/pawl-go/pawl"
)

// watch checks every lease in the instant in which its client begins to trust it.
// Trust never begins again after it has ended. So it is enough to check in that instant
// who else trusts a lease.
type watch struct {
	w *world

	mu      sync.Mutex
	holders []holder
	token   pawl.Token      // the largest token so far
	writer  pawl.Token      // the largest token of a lease that is not shared
	known   map[string]bool // leases that were granted
}

type holder struct {
	c      *client
	lease  *pawl.Lease
	shared bool
}

// largest returns the largest token so far.
func (s *watch) largest() pawl.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// granted checks a lease that a client has just got. before is the largest token from
// before the client asked. Clients that ask for shared leases at the same time may get
// their tokens in any order.
func (s *watch) granted(c *client, lease *pawl.Lease, shared bool, before pawl.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.w
	w.rec.mu.Lock()
	w.rec.h.Grants++
	w.rec.mu.Unlock()
	c.tell(Granted, lease, sharing(shared))
	s.known[lease.ID()] = true
	if lease.Err() != nil {
		return // it was over before its client could look
	}
	living := s.holders[:0]
	for _, h := range s.holders {
		if h.lease.Err() != nil {
			continue
		}
		living = append(living, h)
		if shared && h.shared {
			continue
		}
		w.rec.violated(TwoHolders, "client %d has lease %d while client %d trusts lease %d",
			c.id, w.number(lease.ID()), h.c.id, w.number(h.lease.ID()))
	}
	s.holders = append(living, holder{c, lease, shared})
	last := s.token
	if shared {
		last = max(before, s.writer)
	} else {
		s.writer = max(s.writer, lease.Token())
	}
	if lease.Token() <= last {
		w.rec.violated(TokenOrder, "client %d got token %d after token %d was given", c.id, lease.Token(), last)
	}
	s.token = max(s.token, lease.Token())
}

// prompt checks that a client has got the lock by now.
func (s *watch) prompt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) == 0 {
		s.w.rec.violated(Stuck, "nobody has got the lock within %v, and nobody has it", s.w.plan.Prompt)
	}
}

// knows reports whether a lease was granted.
func (s *watch) knows(id string) bool {
	id, _, _ = strings.Cut(id, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id]
}

// ended forgets a lease that its client releases.
func (s *watch) ended(lease *pawl.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range s.holders {
		if h.lease == lease {
			s.holders = append(s.holders[:i:i], s.holders[i+1:]...)
			return
		}
	}
}

// resource is what the lock protects. It accepts a write only if its token is not smaller
// than the largest token seen.
type resource struct {
	w *world

	mu    sync.Mutex
	token uint64 // the largest seen
}

type write struct {
	client, lease int
	token         uint64
}

func (r *resource) take(wr write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Event{Lane: ResourceLane, Kind: Accepted, Client: wr.client, Lease: wr.lease, Token: wr.token}
	switch {
	case wr.token >= r.token:
		r.token = wr.token
	case !r.w.plan.Off.Fence:
		e.Kind = Rejected
	default:
		r.w.rec.violated(StaleWrite, "client %d overwrites with token %d what was written with token %d", wr.client, wr.token, r.token)
	}
	r.w.rec.add(e)
}
