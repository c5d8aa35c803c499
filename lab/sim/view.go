// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// View is a History in the form that a picture and a terminal show.
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
	Shared   bool // what the client trusts
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

// end returns when all clients have done what their scripts say, and a little time after that.
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

// lastRound reports whether at is later than all scripts can last.
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

// verdict says in words whether the run was safe.
func (h *History) verdict(holders []Span) (string, bool) {
	broken := make(map[Rule]bool)
	for _, w := range h.Violations {
		broken[w.Rule] = true
	}
	var both time.Duration
	refused, shared := 0, false
	for _, s := range holders {
		if s.N > 1 {
			both += s.To - s.From
		}
	}
	for _, e := range h.Events {
		if e.Kind == Rejected {
			refused++
		}
		shared = shared || e.Kind == Granted && e.Text == sharing(true)
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
	if shared {
		return "SAFE: readers shared the lock, and nobody else held it meanwhile", false
	}
	return "SAFE: never more than one client held the lock", false
}

// token returns a token for people: it numbers tokens that follow a clock, as T1, T2 and so on.
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

// seconds returns a duration for a sentence, such as 1.5 s.
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
