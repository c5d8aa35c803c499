// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sentence is one step of a story.
type Sentence struct {
	At   time.Duration
	Text string
	Bad  bool // a rule is broken here
}

// Story tells a history up to the end of its scripts.
func (h *History) Story() []Sentence {
	t := &teller{h: h, end: h.end(), asked: make(map[int]*answers), over: make(map[int]bool)}
	for i, e := range h.Events {
		if e.At > t.end {
			break
		}
		t.violations(e.At - 1)
		t.event(i, e)
	}
	t.violations(t.end)
	for _, lease := range slices.Sorted(maps.Keys(t.asked)) {
		if a := t.asked[lease]; a.told == 0 {
			t.refusals(max(a.at, a.last), a)
		}
	}
	slices.SortStableFunc(t.story, func(a, b Sentence) int { return int(a.At - b.At) })
	return t.story
}

type teller struct {
	h     *History
	end   time.Duration
	asked map[int]*answers // by lease
	over  map[int]bool     // leases that have ended
	story []Sentence
	done  int // violations told
	last  Event
}

// answers are the answers of the nodes to one lease so far.
type answers struct {
	client int
	at     time.Duration
	last   time.Duration
	yes    []string
	no     map[string][]string // nodes by their reason
	told   int
}

func (t *teller) say(at time.Duration, format string, args ...any) {
	t.story = append(t.story, Sentence{At: at, Text: fmt.Sprintf(format, args...)})
}

// violations tells the violations up to at.
func (t *teller) violations(at time.Duration) {
	for ; t.done < len(t.h.Violations) && t.h.Violations[t.done].At <= at; t.done++ {
		w := t.h.Violations[t.done]
		text := title(w.Text) + "."
		switch w.Rule {
		case TwoHolders:
			text = "Now two clients believe that they alone hold the lock."
		case StaleWrite:
			text = "The resource takes the older write, and what the newer holder wrote is lost."
		}
		t.story = append(t.story, Sentence{At: w.At, Text: text, Bad: true})
	}
}

func (t *teller) event(i int, e Event) {
	who := title(e.Lane)
	switch e.Kind {
	case Asks:
		t.asked[e.Lease] = &answers{client: e.Client, at: e.At, no: make(map[string][]string)}
	case Took, Refused:
		t.answer(e)
	case Granted:
		t.granted(e)
	case Failed:
		t.gaveUp(e)
	case Ended:
		t.over[e.Lease] = true
		t.ended(e)
	case Released:
		if t.over[e.Lease] {
			break
		}
		t.say(e.At, "%s is done and gives the lock back.", who)
	case Stopped:
		t.say(e.At, "%s is paused for %s: it runs no code, as in a long garbage collection, and does not notice.", who, seconds(e.Until-e.At))
	case Crashed:
		t.say(e.At, "%s crashes.", who)
	case Back:
		t.back(i, e)
	case Steps:
		t.say(e.At, "The clock of %s is set forward by %s: locks there expire before their time.", e.Lane, strings.TrimPrefix(e.Text, "+"))
	case CutOff, SlowLinks:
		t.severed(e)
	case Accepted, Rejected:
		t.write(e)
	}
	t.last = e
}

func (t *teller) back(i int, e Event) {
	what := "It knows what it knew."
	for _, o := range t.h.Events[max(0, i-8):min(len(t.h.Events), i+8)] {
		if o.Kind == Forgot && o.Lane == e.Lane && o.At == e.At {
			what = "It has lost its data, and with it the lock."
			if a := t.asked[o.Lease]; a != nil {
				what = fmt.Sprintf("It has lost its data, and with it the lock of %s.", ClientLane(a.client))
			}
		}
	}
	rest := " It grants locks again at once."
	if e.Until > e.At {
		rest = fmt.Sprintf(" It grants nothing new for %s: so long could a lock last that it has forgotten.", seconds(e.Until-e.At))
	}
	t.say(e.At, "%s is up again. %s%s", title(e.Lane), what, rest)
}

// severed tells in one sentence of all links that fail for a client in an instant.
func (t *teller) severed(e Event) {
	if e.Text != "cut" && e.Text != "slow" || t.last.At == e.At && t.last.Kind == e.Kind && t.last.Client == e.Client {
		return
	}
	var nodes []string
	for _, o := range t.h.Events {
		if o.At == e.At && o.Kind == e.Kind && o.Client == e.Client {
			nodes = append(nodes, strings.TrimPrefix(NodeLane(o.Node), "node "))
		}
	}
	slices.Sort(nodes)
	which := list(nodes)
	if len(nodes) == t.h.Plan.Nodes && len(nodes) > 1 {
		which = "all nodes"
	}
	if e.Kind == CutOff {
		t.say(e.At, "%s cannot reach %s: the network between them is down.", title(ClientLane(e.Client)), which)
	} else {
		t.say(e.At, "The network between %s and %s is slow.", ClientLane(e.Client), which)
	}
}

func (t *teller) write(e Event) {
	if t.last.Kind == e.Kind && t.last.Client == e.Client && t.last.Lease == e.Lease && t.last.Lane == ResourceLane {
		return
	}
	for _, s := range t.story {
		if e.Kind == Accepted && strings.HasPrefix(s.Text, fmt.Sprintf("The resource takes what client %d writes with token %s", e.Client, t.h.token(e.Token))) {
			if !slices.ContainsFunc(t.h.Violations, func(w Violation) bool { return w.Rule == StaleWrite && w.At == e.At }) {
				return
			}
		}
	}
	if e.Kind == Rejected {
		t.say(e.At, "A write of client %d arrives with token %s. The resource has seen a greater one, and refuses it.", e.Client, t.h.token(e.Token))
		return
	}
	t.say(e.At, "The resource takes what client %d writes with token %s.", e.Client, t.h.token(e.Token))
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func verb(of []string, one, more string) string {
	if len(of) == 1 {
		return one
	}
	return more
}

// list returns "A, B and C".
func list(s []string) string {
	if len(s) < 2 {
		return strings.Join(s, "")
	}
	return strings.Join(s[:len(s)-1], ", ") + " and " + s[len(s)-1]
}
