// SPDX-License-Identifier: Apache-2.0

package participant_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	claimFor  = time.Second
	lookFor   = 2 * time.Second // Caps.Look
	spares    = 1
	goneAfter = 10 * time.Second // a waiter that does not look for so long loses its place
)

// service is the lock service at the other end of the wires. All runs in one bubble, and a request is a
// function call at one instant, so it needs no lock but the world's.
type service struct {
	w      *world
	run    int           // since the last restart
	offset time.Duration // of its clock
	token  uint64
	maxTTL time.Duration
	closed time.Duration // by its clock: nothing is granted before
	names  map[string]*serviceName
	breaks bool            // the next hand-over
	ended  map[string]bool // leases that are granted nothing any more
	broken map[string]*driver.LostError
}

type serviceName struct {
	name    string
	holders []*serviceLease
	queue   []*serviceLease
	passed  bool // a claim has ended that nobody took: whoever looks may have the name
}

type serviceLease struct {
	req    driver.Request
	client int
	token  uint64
	until  time.Duration // by the service's clock
	claim  bool          // handed over, and its client has not asked since
	keeps  bool
	looked time.Duration // when it asked last, by the service's clock
}

func newService(w *world) *service {
	return &service{w: w, run: 1, names: make(map[string]*serviceName), ended: make(map[string]bool), broken: make(map[string]*driver.LostError)}
}

// now is what its clock shows.
func (s *service) now() time.Duration { return s.w.now() + s.offset }

func (s *service) name(name string) *serviceName {
	n := s.names[name]
	if n == nil {
		n = &serviceName{name: name}
		s.names[name] = n
	}
	s.settle(n)
	return n
}

// settle ends what has run out.
func (s *service) settle(n *serviceName) {
	now := s.now()
	n.queue = slices.DeleteFunc(n.queue, func(l *serviceLease) bool { return now-l.looked > goneAfter })
	before := len(n.holders)
	n.holders = slices.DeleteFunc(n.holders, func(l *serviceLease) bool {
		if l.until > now {
			return false
		}
		if l.claim { // its place is where it was
			n.passed = true
			l.claim = false
			n.queue = slices.Insert(n.queue, 0, l)
		}
		return true
	})
	if len(n.holders) < before && !n.passed {
		s.admit(n)
	}
}

func fits(n *serviceName, req *driver.Request) bool {
	if len(n.holders) == 0 {
		return true
	}
	h := n.holders[0]
	switch {
	case req.Shared:
		return h.req.Shared
	case req.Slots > 0:
		return h.req.Slots == req.Slots && len(n.holders) < req.Slots
	}
	return false
}

// admit hands the name to the first waiters that fit.
func (s *service) admit(n *serviceName) {
	if s.now() < s.closed {
		return
	}
	for len(n.queue) > 0 && fits(n, &n.queue[0].req) {
		l := n.queue[0]
		n.queue = n.queue[1:]
		s.hold(n, l, min(claimFor, l.req.TTL))
		l.claim = true
		if s.breaks {
			s.breaks = false
			s.w.in(time.Millisecond, func() { s.breakAll(n.name) })
		}
		s.w.tell(l.client, driver.Event{
			Kind: driver.Granted, Name: n.name, Lease: l.req.Lease, For: min(claimFor, l.req.TTL),
			Grant: driver.Answer{Token: l.token, Spare: spare(l), Waited: len(n.queue) > 0, Clock: driver.Clock{Server: "s", At: s.shown()}},
		})
	}
}

func spare(l *serviceLease) uint64 {
	if l.req.Shared || l.req.Slots > 0 {
		return 0
	}
	return spares
}

// shown is the clock as answers carry it, which is never 0.
func (s *service) shown() time.Duration { return s.now() + time.Hour }

func (s *service) hold(n *serviceName, l *serviceLease, ttl time.Duration) {
	s.token++
	l.token = s.token
	s.token += spare(l)
	l.until = s.now() + ttl
	s.w.grants[l.req.Lease] = s.w.now()
	n.holders = append(n.holders, l)
	n.passed = false
	s.w.recorded(l)
}

func (s *service) ask(client int, req *driver.Request) (driver.Answer, error) {
	n := s.name(req.Name)
	ans := driver.Answer{Clock: driver.Clock{Server: "s", At: s.shown()}}
	if s.ended[req.Lease] {
		return ans, &driver.Failure{Err: fmt.Errorf("%w: the lease was ended before it was granted", driver.ErrUncertain), Lasting: true, Ended: true}
	}
	granted := func(l *serviceLease) (driver.Answer, error) {
		ans.Granted, ans.Token, ans.Spare, ans.Waited = true, l.token, spare(l), len(n.queue) > 0
		return ans, nil
	}
	if l := find(n.holders, req.Lease); l != nil {
		if l.claim {
			l.claim, l.until = false, s.now()+req.TTL
		} else {
			l.until = max(l.until, s.now()+req.TTL)
		}
		return granted(l)
	}
	if len(n.holders) > 0 && req.Slots > 0 && n.holders[0].req.Slots > 0 && n.holders[0].req.Slots != req.Slots {
		return ans, &driver.Failure{Err: &driver.SlotsError{Held: n.holders[0].req.Slots, Wanted: req.Slots}, Lasting: true}
	}
	rank := slices.IndexFunc(n.queue, func(l *serviceLease) bool { return l.req.Lease == req.Lease })
	mine := &serviceLease{req: *req, client: client, keeps: req.Keeps, looked: s.now()}
	if rank >= 0 {
		n.queue[rank].looked = s.now()
	}
	turn := rank == 0 || len(n.queue) == 0 || rank > 0 && n.passed
	if s.now() >= s.closed && turn && fits(n, req) {
		if rank >= 0 {
			mine = n.queue[rank]
			n.queue = slices.Delete(n.queue, rank, rank+1)
		}
		s.hold(n, mine, req.TTL)
		return granted(mine)
	}
	if rank < 0 {
		for _, h := range n.holders {
			if h.keeps {
				s.w.tell(h.client, driver.Event{Kind: driver.Wanted, Name: n.name, Lease: h.req.Lease, Waits: req.Queue})
			}
		}
		if rank = len(n.queue); req.Queue {
			n.queue = append(n.queue, mine)
			s.w.recorded(mine)
		}
	}
	ans.Rank, ans.Free, ans.Closed = rank, s.free(n), max(0, s.closed-s.now())
	for _, h := range n.holders {
		ans.Holders = append(ans.Holders, driver.Held{Holder: *h.req.Holder, Lease: h.req.Lease, Token: driver.Token(h.token)})
	}
	return ans, nil
}

func (s *service) free(n *serviceName) time.Duration {
	var first time.Duration
	for i, h := range n.holders {
		if left := h.until - s.now(); i == 0 || left < first {
			first = left
		}
	}
	return first
}

func find(all []*serviceLease, lease string) *serviceLease {
	i := slices.IndexFunc(all, func(l *serviceLease) bool { return l.req.Lease == lease })
	if i < 0 {
		return nil
	}
	return all[i]
}

func (s *service) renew(l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	n := s.name(l.Name)
	r := driver.Renewal{Clock: driver.Clock{Server: "s", At: s.shown()}}
	h := find(n.holders, l.Lease)
	if h == nil {
		if lost := s.broken[l.Lease]; lost != nil {
			return r, lost
		}
		return r, &driver.LostError{Reason: driver.Gone}
	}
	h.claim = false
	if until := s.now() + ttl; until > h.until {
		h.until = until
	} else {
		r.Kept = true
	}
	return r, nil
}

func (s *service) end(l driver.Ref, how driver.End) bool {
	n := s.name(l.Name)
	if how.Unsure || how.Doubt {
		s.ended[l.Lease] = true
	}
	h, q := find(n.holders, l.Lease), find(n.queue, l.Lease)
	n.holders = slices.DeleteFunc(n.holders, func(o *serviceLease) bool { return o == h })
	n.queue = slices.DeleteFunc(n.queue, func(o *serviceLease) bool { return o == q })
	if h != nil || q != nil {
		s.admit(n)
	}
	return h != nil || q != nil
}

// breakAll ends all leases on a name by force.
func (s *service) breakAll(name string) {
	n := s.name(name)
	for _, h := range n.holders {
		lost := &driver.LostError{Reason: driver.Broken, By: &driver.Holder{Who: "operator"}, Why: "test"}
		s.broken[h.req.Lease] = lost
		s.w.tell(h.client, driver.Event{Kind: driver.Lost, Name: name, Lease: h.req.Lease, Loss: lost})
		s.ended[h.req.Lease] = true
		s.w.broken[h.req.Why] = s.w.now()
	}
	n.holders = nil
	s.admit(n)
}

// restart begins a new run. If its data are lost, it grants nothing until leases that it may have
// forgotten have ended.
func (s *service) restart(empty bool, back time.Duration) {
	s.run++
	s.offset -= back // it may be another machine, whose clock is behind
	if !empty {
		return
	}
	s.names, s.ended, s.broken = make(map[string]*serviceName), make(map[string]bool), make(map[string]*driver.LostError)
	s.closed = s.now() + s.maxTTL
}

// left describes what there still is.
func (s *service) left() string {
	var some []string
	for name, n := range s.names {
		for _, l := range n.holders {
			if l.until > s.now() {
				some = append(some, fmt.Sprintf("%s: lease of %s", name, l.req.Why))
			}
		}
		for _, l := range n.queue {
			some = append(some, fmt.Sprintf("%s: place of %s", name, l.req.Why))
		}
	}
	slices.Sort(some)
	return strings.Join(some, ", ")
}
