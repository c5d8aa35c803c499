// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
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

// answers are those of the nodes to one lease so far.
type answers struct {
	client int
	at     time.Duration
	last   time.Duration
	yes    []string
	no     map[string][]string // nodes by what they say
	told   int
}

func (t *teller) say(at time.Duration, format string, args ...any) {
	t.story = append(t.story, Sentence{At: at, Text: fmt.Sprintf(format, args...)})
}

// violations tells those up to at.
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

func (t *teller) ended(e Event) {
	who, why := title(e.Lane), "its time is up"
	if !strings.Contains(e.Text, "not renewed") && !strings.Contains(e.Text, "expired") {
		t.say(e.At, "%s's lease is over: it hears that the nodes no longer have its lock. It stops.", who)
		return
	}
	for _, o := range t.h.Events {
		if o.Kind == Stopped && o.Client == e.Client && o.At <= e.At && e.At < o.Until {
			t.say(e.At, "%s's lease is over: %s. But %s is paused and does not know it.", who, why, e.Lane)
			return
		}
	}
	t.say(e.At, "%s's lease is over: %s. It stops, before another can have the lock.", who, why)
}

func (t *teller) answer(e Event) {
	a := t.asked[e.Lease]
	if a == nil || a.told > 0 && e.Kind == Refused && e.Text == "this lease has ended" {
		return
	}
	node := strings.TrimPrefix(e.Lane, "node ")
	a.last = e.At
	if e.Kind == Took {
		if !slices.Contains(a.yes, node) {
			a.yes = append(a.yes, node)
		}
	} else if !slices.Contains(a.no[e.Text], node) {
		a.no[e.Text] = append(a.no[e.Text], node)
	}
	if refused := t.refused(a); a.told == 0 && refused > t.h.Plan.Nodes-t.quorum() {
		// The rest of the answers are on their way; they belong to this sentence.
		for _, o := range t.h.Events {
			if o.At > e.At && o.At < e.At+5*time.Millisecond && o.Lease == e.Lease && o.Node > 0 {
				n := strings.TrimPrefix(o.Lane, "node ")
				if o.Kind == Took && !slices.Contains(a.yes, n) {
					a.yes = append(a.yes, n)
				} else if o.Kind == Refused && o.Text != "this lease has ended" && !slices.Contains(a.no[o.Text], n) {
					a.no[o.Text] = append(a.no[o.Text], n)
				}
			}
		}
		t.refusals(e.At, a)
	}
}

func (t *teller) quorum() int {
	if t.h.Plan.Quorum > 0 {
		return t.h.Plan.Quorum
	}
	return t.h.Plan.Nodes/2 + 1
}

func (t *teller) refused(a *answers) (n int) {
	for _, nodes := range a.no {
		n += len(nodes)
	}
	return n
}

// refusals tells why a client does not get the lock now.
func (t *teller) refusals(at time.Duration, a *answers) {
	a.told++
	var parts []string
	slices.Sort(a.yes)
	if len(a.yes) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s yes, but that is no majority", list(a.yes), verb(a.yes, "says", "say")))
	}
	for _, nodes := range a.no {
		slices.Sort(nodes)
	}
	whys := slices.SortedFunc(maps.Keys(a.no), func(x, y string) int { return cmp.Compare(a.no[x][0]+x, a.no[y][0]+y) })
	for _, why := range whys {
		nodes := a.no[why]
		parts = append(parts, fmt.Sprintf("%s %s: %s", list(nodes), verb(nodes, "refuses", "refuse"), t.because(why)))
	}
	if len(parts) == 0 {
		parts = append(parts, "nobody answers")
	}
	t.say(at, "%s asks for the lock. %s. It has to wait.", title(ClientLane(a.client)), strings.Join(parts, "; "))
}

// because says in words of people what a node has said.
func (t *teller) because(why string) string {
	var lease int
	if n, _ := fmt.Sscanf(why, "lease %d has it", &lease); n == 1 {
		if a := t.asked[lease]; a != nil {
			return ClientLane(a.client) + " has the lock there"
		}
	}
	if why == "it may have forgotten a lock" {
		return "it may have forgotten a lock, and grants nothing yet"
	}
	return why
}

func (t *teller) granted(e Event) {
	a := t.asked[e.Lease]
	if a == nil {
		return
	}
	slices.Sort(a.yes)
	again := ""
	if a.told > 0 {
		again = " again"
	}
	of := fmt.Sprintf("%d of %d nodes, a majority", len(a.yes), t.h.Plan.Nodes)
	if t.h.Plan.Nodes == 1 {
		of = "the only node"
	}
	t.say(e.At, "%s asks%s for the lock, and %s %s yes: %s. It holds the lock, with token %s.",
		title(e.Lane), again, list(a.yes), verb(a.yes, "says", "say"), of, t.h.token(e.Token))
	a.told++
}

func (t *teller) gaveUp(e Event) {
	for _, lease := range slices.Backward(slices.Sorted(maps.Keys(t.asked))) {
		if a := t.asked[lease]; a.client == e.Client && a.told == 0 {
			t.refusals(e.At, a)
			t.story[len(t.story)-1].Text = strings.Replace(t.story[len(t.story)-1].Text, "It has to wait.", "It gives up.", 1)
			return
		}
	}
	t.say(e.At, "%s gives up.", title(e.Lane))
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

// severed tells of all links of a client at once.
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
