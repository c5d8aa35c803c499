// SPDX-License-Identifier: Apache-2.0

// Package history turns looks at stores into what happens to their locks.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// Span is a lease, a wait or a quarantine, from its begin to its end. Instants are by our
// clock, in milliseconds.
type Span struct {
	ID     uint64     `json:"id"`
	Store  string     `json:"store"`
	Name   string     `json:"name"` // empty for a quarantine, which is of the whole store
	What   string     `json:"what"` // lease, wait, quarantine
	Person string     `json:"person,omitempty"`
	Host   string     `json:"host,omitempty"`
	Kind   string     `json:"kind,omitempty"`
	Why    string     `json:"why,omitempty"`
	Token  pawl.Token `json:"token,omitempty"`
	From   int64      `json:"from"`
	To     int64      `json:"to,omitempty"`   // 0: it goes on
	Late   int64      `json:"late,omitempty"` // since when it is overdue, or was at its end
	// State of a lease is held, overdue (not renewed for half of its time), ended (released or
	// broken) or expired (overdue when it was seen last). State of a wait is waiting, granted or
	// left; of a quarantine, closed or ended.
	State string `json:"state"`

	// Holder and Waiter are what was seen last, and Waited is the wait that a lease has ended, for reports of
	// changes. Kept spans have none of them.
	Holder *report.Holder `json:"-"`
	Waiter *report.Waiter `json:"-"`
	Waited *Span          `json:"-"`

	who  report.Person
	left time.Duration // the most that the lease had left when it was looked at
}

// Bytes bounds the ended spans that a History keeps for a page. Nothing else here grows with time.
const Bytes = 4 << 20

// History has the spans of all stores that have ended, oldest first.
type History struct {
	last  uint64
	most  int
	ended []*Span
	bytes int
}

// New returns a History that keeps as many spans that have ended as fit into so many bytes.
func New(bytes int) *History { return &History{most: bytes} }

// Ended returns the spans that have ended and are kept.
func (h *History) Ended() []*Span { return h.ended }

// size is about what a span takes in memory.
func (s *Span) size() int {
	return 320 + len(s.Name) + len(s.Person) + len(s.Host) + len(s.Kind) + len(s.Why)
}

func (h *History) begin(sp Span) *Span {
	h.last++
	sp.ID = h.last
	return &sp
}

func (h *History) end(sp *Span, at time.Time, state string) {
	sp.To, sp.State = at.UnixMilli(), state
	kept := *sp
	kept.Holder, kept.Waiter, kept.Waited = nil, nil, nil
	h.ended = append(h.ended, &kept)
	h.bytes += kept.size()
	n := 0
	for ; h.bytes > h.most; n++ {
		h.bytes -= h.ended[n].size()
		h.ended[n] = nil
	}
	h.ended = h.ended[n:]
}

// follow compares the spans of l with its holders and waiters now, and returns the spans that began,
// changed or ended since the look before.
func (h *History) follow(s *Store, l *Lock, now time.Time) (news []*Span) {
	there, held := map[string]bool{}, map[string]bool{}
	var begun []*Span
	for i := range l.Holders {
		lease := &l.Holders[i]
		key := fmt.Sprintf("lease %s %d", lease.Lease, lease.Token)
		there[key], held[lease.Lease] = true, true
		sp := l.Spans[key]
		if sp == nil {
			sp = h.lease(s, l, lease, now)
			l.Spans[key] = sp
			begun = append(begun, sp)
			news = append(news, sp)
		}
		sp.Holder = lease
		if sp.look(lease.Expires, now) {
			news = append(news, sp)
		}
	}
	news = append(news, h.followWaiters(s, l, there, held, now)...)
	for key, sp := range l.Spans {
		if there[key] {
			continue
		}
		state := sp.last()
		if i := slices.IndexFunc(begun, sp.endedBy); i >= 0 {
			begun[i].Waited, state = sp, "granted"
		}
		h.end(sp, now, state)
		delete(l.Spans, key)
		news = append(news, sp)
	}
	return news
}

// lease begins the span of a lease.
func (h *History) lease(s *Store, l *Lock, held *report.Holder, now time.Time) *Span {
	sp := h.begin(Span{Store: s.Name, Name: l.Name, What: "lease", Kind: cmp.Or(display.Kind(held.Shared, held.Slots), "exclusive"), Why: held.Why,
		Token: held.Token, From: between(s.Asked, held.Acquired, now), State: "held"})
	sp.by(held.Person)
	if !s.Asked.IsZero() && !held.Shared && held.Slots == 0 {
		s.began(l.Name, now)
	}
	return sp
}

// followWaiters is the part of follow for waiters. It adds the keys of their spans to there. A store may show a wait
// whose lease is held already.
func (h *History) followWaiters(s *Store, l *Lock, there, held map[string]bool, now time.Time) (news []*Span) {
	nameless := map[string]bool{}
	for i := range l.Waiters {
		w := &l.Waiters[i]
		if w.Lease != "" && held[w.Lease] {
			continue
		}
		key := "wait " + cmp.Or(w.Lease, fmt.Sprintf("%v %q %v %d", w.Person, w.Why, w.Shared, w.Slots))
		for there[key] { // another one of the same process
			key += "+"
		}
		if w.Lease == "" && w.Who == "" && w.User == "" {
			nameless[key] = true
			if !l.nameless[key] {
				continue // a store may show a waiter before it shows whose it is, and after
			}
		}
		there[key] = true
		sp := l.Spans[key]
		if sp == nil {
			sp = h.begin(Span{Store: s.Name, Name: l.Name, What: "wait", Kind: cmp.Or(display.Kind(w.Shared, w.Slots), "exclusive"), Why: w.Why,
				From: between(s.Asked, w.Since, now), State: "waiting"})
			sp.by(w.Person)
			l.Spans[key] = sp
			news = append(news, sp)
		}
		sp.Waiter = w
	}
	l.nameless = nameless
	return news
}

func (s *Span) by(p report.Person) {
	p.Why = ""
	s.who, s.Person, s.Host = p, p.String(), p.Host
}

// look notes how long the lease has left, and reports whether its state has changed. A
// lease is renewed at a third of its TTL, so one that has less than half is overdue. Where
// leases do not expire, none is.
func (s *Span) look(expires, now time.Time) bool {
	if expires.IsZero() {
		return false
	}
	left := expires.Sub(now)
	s.left = max(s.left, left)
	overdue := 2*left < s.left
	switch {
	case overdue == (s.State == "overdue"):
		return false
	case overdue:
		s.State, s.Late = "overdue", now.UnixMilli()
	default:
		s.State, s.Late = "held", 0
	}
	return true
}

// last returns the state of a span that has ended.
func (s *Span) last() string {
	switch {
	case s.State == "overdue":
		return "expired"
	case s.What == "lease":
		return "ended"
	}
	return "left"
}

// endedBy reports whether s is a wait that lease has ended.
func (s *Span) endedBy(lease *Span) bool {
	switch {
	case s.What != "wait" || lease.Waited != nil:
		return false
	case s.Waiter.Lease != "":
		return s.Waiter.Lease == lease.Holder.Lease
	}
	return s.who == lease.who
}

// closed notes a quarantine.
func (h *History) closed(s *Store, now time.Time) []*Span {
	sp, shut := s.Shut, s.State != nil && s.State.Closed != ""
	switch {
	case shut && sp == nil:
		sp = h.begin(Span{Store: s.Name, What: "quarantine", Why: s.State.Why, From: now.UnixMilli(), State: "closed"})
		s.Shut = sp
	case !shut && sp != nil:
		s.Shut = nil
		h.end(sp, now, "ended")
	default:
		return nil
	}
	return []*Span{sp}
}

// between returns when something began that was not there at prev and is there now.
// Others' clocks may be wrong, so what they say counts only in between.
func between(prev, said, now time.Time) int64 {
	if said.IsZero() || said.After(now) {
		said = now
	}
	if said.Before(prev) {
		said = prev
	}
	return said.UnixMilli()
}
