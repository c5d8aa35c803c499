// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// View is a History as a picture shows it, on paper or on a terminal.
type View struct {
	Title   string
	Note    string // which protection is on or off
	Verdict string
	Bad     bool // a rule was broken
	End     time.Duration
	Holders []Span // how many clients trust a lease; N is the number
	Lanes   []Lane
	Story   []Sentence
}

// Lane is what happened to one client, node, or the resource.
type Lane struct {
	Name  string
	Spans []Span
	Marks []Mark
}

// Span is a time in a lane. N is the client concerned, from 1; 0 if there is none.
type Span struct {
	Kind     string
	From, To time.Duration
	N        int
	Text     string
}

// Kinds of Span.
const (
	Trusts  = "trusts"  // a client trusts its lease
	Waits   = "waits"   // a client asks for the lock
	Pauses  = "pauses"  // a client stands still
	Has     = "has"     // a client has the lock of a node
	IsDown  = "down"    // a node is down
	IsQuiet = "waiting" // a node grants nothing new
	Apart   = "apart"   // a client is cut off from a node
)

// Mark is an instant in a lane.
type Mark struct {
	At   time.Duration
	N    int // the client concerned
	Text string
	Bad  bool // refused, or wrong
}

// NewView returns the view of a history.
func NewView(h *History) *View {
	v := &View{Title: h.Plan.Name, End: h.end()}
	for c := range h.Plan.Clients {
		v.Lanes = append(v.Lanes, h.clientLane(c+1, v.End))
	}
	for n := range h.Plan.Nodes {
		v.Lanes = append(v.Lanes, h.nodeLane(n+1, v.End))
	}
	v.Lanes = append(v.Lanes, h.resourceLane(v.End))
	v.Holders = holders(v.Lanes[:len(h.Plan.Clients)], v.End)
	v.Story = h.Story()
	v.Verdict, v.Bad = h.verdict(v.Holders)
	return v
}

// end is when everybody has done what its script says.
func (h *History) end() time.Duration {
	left := make(map[int]int)
	for i, s := range h.Plan.Clients {
		left[i+1] = len(s)
	}
	var end time.Duration
	busy := make(map[int]bool)
	for _, e := range h.Events {
		switch {
		case e.Kind == Granted && left[e.Client] > 0:
			left[e.Client]--
			busy[e.Client] = true
		case e.Kind == Failed && left[e.Client] > 0:
			left[e.Client]--
		case (e.Kind == Released || e.Kind == Ended) && busy[e.Client]:
			busy[e.Client] = false
		case e.Kind == Accepted || e.Kind == Rejected:
			if left[e.Client] > 0 || !h.lastRound(e.At) {
				break
			}
			continue
		default:
			continue
		}
		end = e.At
	}
	for _, w := range h.Violations {
		if w.Rule == TwoHolders || w.Rule == StaleWrite {
			end = max(end, w.At)
		}
	}
	return end + end/16 + time.Millisecond
}

// lastRound reports whether all scripts were over long before.
func (h *History) lastRound(at time.Duration) bool {
	var longest time.Duration
	for _, s := range h.Plan.Clients {
		var sum time.Duration
		for _, step := range s {
			sum += step.Wait + step.Patience + step.Work + step.Stall
		}
		longest = max(longest, sum)
	}
	return at > longest
}

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
				l.Spans = append(l.Spans, Span{Kind: Trusts, From: e.At, To: -1, N: c, Text: "token " + h.token(e.Token)})
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

func (h *History) nodeLane(n int, end time.Duration) Lane {
	l := Lane{Name: NodeLane(n)}
	has := -1              // the span of the lock
	var knew time.Duration // how long a node that is down would have it
	var whose int
	until := func(at time.Duration) {
		if has >= 0 {
			l.Spans[has].To = min(l.Spans[has].To, at)
		}
		has = -1
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
			until(e.At)
			has = len(l.Spans)
			l.Spans = append(l.Spans, Span{Kind: Has, From: e.At, To: e.Until, N: e.Client})
		case Renews:
			if has >= 0 {
				l.Spans[has].To = max(l.Spans[has].To, e.Until)
			}
		case Freed:
			until(e.At)
		case Forgot: // in the instant in which it is back
			knew = 0
			if has >= 0 && l.Spans[has].From == e.At {
				l.Spans = slices.Delete(l.Spans, has, has+1)
				has = -1
			}
		case Steps:
			until(min(end, e.At))
			l.Marks = append(l.Marks, Mark{At: e.At, Text: "clock set by " + e.Text, Bad: true})
		case Crashed:
			knew = 0
			if has >= 0 {
				knew, whose = l.Spans[has].To, l.Spans[has].N
			}
			until(e.At)
			l.Spans = append(l.Spans, Span{Kind: IsDown, From: e.At, To: min(e.Until, end)})
		case Back:
			if knew > e.At {
				has = len(l.Spans)
				l.Spans = append(l.Spans, Span{Kind: Has, From: e.At, To: knew, N: whose})
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

// holders counts the clients that trust a lease.
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
		n := 0
		for _, l := range clients {
			if slices.ContainsFunc(l.Spans, func(s Span) bool { return s.Kind == Trusts && s.From <= times[i-1] && times[i] <= s.To }) {
				n++
			}
		}
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

// verdict says in words how it went.
func (h *History) verdict(holders []Span) (string, bool) {
	broken := make(map[Rule]bool)
	for _, w := range h.Violations {
		broken[w.Rule] = true
	}
	var both time.Duration
	refused := 0
	for _, s := range holders {
		if s.N > 1 {
			both += s.To - s.From
		}
	}
	for _, e := range h.Events {
		if e.Kind == Rejected {
			refused++
		}
	}
	switch {
	case broken[TwoHolders] && broken[StaleWrite]:
		return fmt.Sprintf("UNSAFE: two clients held the lock for %s, and one overwrote the other", seconds(both)), true
	case broken[TwoHolders]:
		return fmt.Sprintf("UNSAFE: two clients held the lock at the same time, for %s", seconds(both)), true
	case broken[StaleWrite]:
		return "UNSAFE: a late write destroyed what the next holder had written", true
	case len(h.Violations) > 0:
		return "UNSAFE: " + h.Violations[0].Text, true
	case refused > 0:
		return "SAFE: one holder at a time, and the late write was refused", false
	}
	return "SAFE: never more than one client held the lock", false
}

// token returns a token as people like it: those that follow a clock are numbered.
func (h *History) token(t uint64) string {
	if t < 1e6 {
		return strconv.FormatUint(t, 10)
	}
	var all []uint64
	for _, e := range h.Events {
		if e.Kind == Granted && !slices.Contains(all, e.Token) {
			all = append(all, e.Token)
		}
	}
	slices.Sort(all)
	return "T" + strconv.Itoa(slices.Index(all, t)+1)
}

// seconds returns a duration as a sentence has it.
func seconds(d time.Duration) string {
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	}
	s := strconv.FormatFloat(d.Seconds(), 'f', 1, 64)
	return strings.TrimSuffix(s, ".0") + " s"
}

// View runs the scenario, with its protection or without, and returns the view.
func (s Scenario) View(safe bool) *View {
	plan, note := s.Unsafe, "Switched off: the protection that "
	if safe {
		plan, note = s.Safe, "The protection: "
	}
	v := NewView(Run(plan))
	v.Title, v.Note = s.Title, note+s.Protection
	return v
}
