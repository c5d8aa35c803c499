// SPDX-License-Identifier: Apache-2.0

// Package history compares looks at stores, and tells what happened to their locks in between.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
)

// Span is a lease, a wait or a quarantine, from its begin to its end. Instants are in
// milliseconds of Unix time, by the clock of this machine.
type Span struct {
	ID     uint64     `json:"id"`
	Store  string     `json:"store"`
	Name   string     `json:"name"` // empty for a quarantine, which is for the whole store
	What   string     `json:"what"` // lease, wait, quarantine
	Person string     `json:"person,omitempty"`
	Host   string     `json:"host,omitempty"`
	Kind   string     `json:"kind,omitempty"`
	Why    string     `json:"why,omitempty"`
	Token  pawl.Token `json:"token,omitempty"`
	From   int64      `json:"from"`
	To     int64      `json:"to,omitempty"`   // 0: it goes on
	Late   int64      `json:"late,omitempty"` // since when the lease is overdue, or was at its end
	// The State of a lease is held, overdue (half of its time has passed without a renewal),
	// ended (released or broken) or expired (overdue in the last look). The State of a wait
	// is waiting, granted or left. The State of a quarantine is closed or ended.
	State string `json:"state"`

	// Holder and Waiter are from the last look that showed them. Waited is the wait that ended with
	// this lease. They are for reports of changes; spans in Ended lack them.
	Holder *pawl.Held   `json:"-"`
	Waiter *pawl.Waiter `json:"-"`
	Waited *Span        `json:"-"`

	who  pawl.Holder
	left time.Duration // the longest time that the lease had left in any look
}

// Bytes limits the memory for the ended spans that a History keeps for a page. Nothing else here grows with time.
const Bytes = 4 << 20

// History keeps the ended spans of all stores, oldest first.
type History struct {
	last  uint64
	most  int
	ended []*Span
	bytes int
}

// New returns a History that keeps as many ended spans as fit into bytes.
func New(bytes int) *History { return &History{most: bytes} }

// Ended returns the ended spans that h keeps.
func (h *History) Ended() []*Span { return h.ended }

// size returns about how many bytes of memory a span takes.
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

// follow compares the spans of l with its holders and waiters now. It returns the spans that began,
// changed or ended since the last look.
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
func (h *History) lease(s *Store, l *Lock, held *pawl.Held, now time.Time) *Span {
	sp := h.begin(Span{Store: s.Name, Name: l.Name, What: "lease", Kind: cmp.Or(display.Kind(held.Shared, held.Slots), "exclusive"), Why: held.Why,
		Token: held.Token, From: between(s.Asked, held.Acquired, now), State: "held"})
	sp.by(held.Holder)
	if !s.Asked.IsZero() && !held.Shared && held.Slots == 0 {
		s.began(l.Name, now)
	}
	return sp
}

// followWaiters is the part of follow for waiters. It adds the keys of their spans to there. It skips a waiter whose
// lease is in held: a store may still show a wait when it has granted the lease.
func (h *History) followWaiters(s *Store, l *Lock, there, held map[string]bool, now time.Time) (news []*Span) {
	nameless := map[string]bool{}
	for i := range l.Waiters {
		w := &l.Waiters[i]
		if w.Lease != "" && held[w.Lease] {
			continue
		}
		key := "wait " + cmp.Or(w.Lease, fmt.Sprintf("%v %q %v %d", w.Holder, w.Why, w.Shared, w.Slots))
		for there[key] { // the process waits for the name more than once
			key += "+"
		}
		if w.Lease == "" && w.Who == "" && w.User == "" {
			nameless[key] = true
			if !l.nameless[key] {
				continue // skip it in one look: the store may show its name in the next, or not show it at all
			}
		}
		there[key] = true
		sp := l.Spans[key]
		if sp == nil {
			sp = h.begin(Span{Store: s.Name, Name: l.Name, What: "wait", Kind: cmp.Or(display.Kind(w.Shared, w.Slots), "exclusive"), Why: w.Why,
				From: between(s.Asked, w.Since, now), State: "waiting"})
			sp.by(w.Holder)
			l.Spans[key] = sp
			news = append(news, sp)
		}
		sp.Waiter = w
	}
	l.nameless = nameless
	return news
}

func (s *Span) by(p pawl.Holder) {
	p.Trace = "" // a waiter may have none
	s.who, s.Person, s.Host = p, p.String(), p.Host
}

// look notes how long the lease has left, and reports whether its state has changed. A
// client renews a lease after a third of its TTL, so a lease that has less than half left is
// overdue. A lease that does not expire is never overdue.
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

// last returns the final state of a lease or a wait that has ended.
func (s *Span) last() string {
	switch {
	case s.State == "overdue":
		return "expired"
	case s.What == "lease":
		return "ended"
	}
	return "left"
}

// endedBy reports whether s is a wait that ended because the waiter got lease.
func (s *Span) endedBy(lease *Span) bool {
	switch {
	case s.What != "wait" || lease.Waited != nil:
		return false
	case s.Waiter.Lease != "":
		return s.Waiter.Lease == lease.Holder.Lease
	}
	return s.who == lease.who
}

// closed begins or ends the span of a quarantine, and returns the span if it changed.
func (h *History) closed(s *Store, now time.Time) []*Span {
	sp, shut := s.Shut, s.State.Shut() != ""
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

// between returns when something began that did not exist at prev and exists now. said is
// the instant by another machine's clock, which may be wrong, so between limits it to that time.
func between(prev, said, now time.Time) int64 {
	if said.IsZero() || said.After(now) {
		said = now
	}
	if said.Before(prev) {
		said = prev
	}
	return said.UnixMilli()
}
