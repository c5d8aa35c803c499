// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"time"
)

func (h *History) clientLane(c int, end time.Duration) Lane {
	l := Lane{Name: ClientLane(c)}
	var asks time.Duration = -1
	open := func(kind string) *Span {
		for i := range l.Spans {
			if s := &l.Spans[i]; s.Kind == kind && s.To < 0 {
				return s
			}
		}
		return &Span{}
	}
	for _, e := range h.Events {
		if e.Lane != l.Name || e.At > end {
			continue
		}
		switch e.Kind {
		case Asks:
			if asks < 0 {
				asks = e.At
			}
		case Granted, Failed:
			if asks >= 0 {
				l.Spans = append(l.Spans, Span{Kind: Waits, From: asks, To: e.At, N: c})
			}
			asks = -1
			if e.Kind == Granted {
				l.Spans = append(l.Spans, h.trusts(e))
			}
		case Ended, Released:
			open(Trusts).To = e.At
		case Stopped:
			l.Spans = append(l.Spans, Span{Kind: Pauses, From: e.At, To: min(e.Until, end), N: c})
		case Writes:
			l.Marks = append(l.Marks, Mark{At: e.At, N: c})
		}
	}
	if asks >= 0 {
		l.Spans = append(l.Spans, Span{Kind: Waits, From: asks, To: end, N: c})
	}
	for i := range l.Spans {
		if l.Spans[i].To < 0 {
			l.Spans[i].To = end
		}
	}
	return l
}

// trusts returns the span that begins when e grants a lease.
func (h *History) trusts(e Event) Span {
	s := Span{Kind: Trusts, From: e.At, To: -1, N: e.Client, Text: "token " + h.token(e.Token), Shared: e.Text == sharing(true)}
	if s.Shared {
		s.Text += ", shared"
	}
	return s
}

func (h *History) nodeLane(n int, end time.Duration) Lane {
	l := Lane{Name: NodeLane(n)}
	has := make(map[int]int) // the index of the span of each client's lock
	var knew []Span          // the spans of the locks that a node had when it crashed
	until := func(at time.Duration, client int) {
		if i, ok := has[client]; ok {
			l.Spans[i].To = min(l.Spans[i].To, at)
		}
		delete(has, client)
	}
	untilAll := func(at time.Duration) {
		for client := range has {
			until(at, client)
		}
	}
	for _, e := range h.Events {
		if e.Kind == CutOff && e.Node == n && e.At <= end {
			l.Spans = append(l.Spans, Span{Kind: Apart, From: e.At, To: min(e.Until, end), N: e.Client})
		}
		if e.Lane != l.Name || e.At > end {
			continue
		}
		switch e.Kind {
		case Took:
			until(e.At, e.Client)
			if e.Text != sharing(true) {
				untilAll(e.At)
			}
			has[e.Client] = len(l.Spans)
			l.Spans = append(l.Spans, Span{Kind: Has, From: e.At, To: e.Until, N: e.Client})
		case Renews:
			if i, ok := has[e.Client]; ok {
				l.Spans[i].To = max(l.Spans[i].To, e.Until)
			}
		case Freed:
			until(e.At, e.Client)
		case Forgot: // follows Back, in the same instant
			knew = nil
			l.Spans = slices.DeleteFunc(l.Spans, func(s Span) bool { return s.Kind == Has && s.From == e.At })
			clear(has)
		case Steps:
			untilAll(min(end, e.At))
			l.Marks = append(l.Marks, Mark{At: e.At, Text: "clock set by " + e.Text, Bad: true})
		case Crashed:
			knew = nil
			for _, client := range slices.Sorted(maps.Keys(has)) {
				knew = append(knew, l.Spans[has[client]])
			}
			untilAll(e.At)
			l.Spans = append(l.Spans, Span{Kind: IsDown, From: e.At, To: min(e.Until, end)})
		case Back:
			for _, s := range knew {
				if s.To > e.At {
					has[s.N] = len(l.Spans)
					l.Spans = append(l.Spans, Span{Kind: Has, From: e.At, To: s.To, N: s.N})
				}
			}
			if e.Until > e.At {
				l.Spans = append(l.Spans, Span{Kind: IsQuiet, From: e.At, To: min(e.Until, end)})
			}
		}
	}
	for i := range l.Spans {
		l.Spans[i].To = min(l.Spans[i].To, end)
	}
	return l
}

func (h *History) resourceLane(end time.Duration) Lane {
	l := Lane{Name: ResourceLane}
	var newest uint64
	for _, e := range h.Events {
		if e.Lane != ResourceLane || e.At > end {
			continue
		}
		m := Mark{At: e.At, N: e.Client, Text: h.token(e.Token), Bad: e.Kind == Rejected || e.Token < newest}
		newest = max(newest, e.Token)
		l.Marks = append(l.Marks, m)
	}
	return l
}

// holders counts the clients that trust a lease. Clients with shared leases count as one.
func holders(clients []Lane, end time.Duration) []Span {
	times := []time.Duration{0, end}
	for _, l := range clients {
		for _, s := range l.Spans {
			if s.Kind == Trusts {
				times = append(times, s.From, s.To)
			}
		}
	}
	slices.Sort(times)
	var all []Span
	for i := 1; i < len(times); i++ {
		n, readers := 0, 0
		for _, l := range clients {
			for _, s := range l.Spans {
				if s.Kind != Trusts || s.From > times[i-1] || times[i] > s.To {
					continue
				}
				if s.Shared {
					readers = 1
				} else {
					n++
				}
				break
			}
		}
		n += readers
		switch last := len(all) - 1; {
		case times[i] == times[i-1]:
		case last >= 0 && all[last].N == n:
			all[last].To = times[i]
		default:
			all = append(all, Span{From: times[i-1], To: times[i], N: n})
		}
	}
	return all
}
