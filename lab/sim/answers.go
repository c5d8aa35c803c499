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
		// The other answers are on their way, and belong to this sentence.
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

// because says in words for people why a node refuses.
func (t *teller) because(why string) string {
	var lease int
	if n, _ := fmt.Sscanf(why, "lease %d has it", &lease); n == 1 {
		if a := t.asked[lease]; a != nil {
			return ClientLane(a.client) + " has the lock there"
		}
	}
	switch why {
	case "it may have forgotten a lock":
		return why + ", and grants nothing yet"
	case "it is shared":
		return "readers have it there"
	case "a writer waits":
		return "a writer waits for the readers to go"
	}
	return why
}

func (t *teller) granted(e Event) {
	a := t.asked[e.Lease]
	if a == nil {
		return
	}
	slices.Sort(a.yes)
	again, holds := "", "holds"
	if e.Text == sharing(true) {
		holds = "shares"
	}
	if a.told > 0 {
		again = " again"
	}
	of := fmt.Sprintf("%d of %d nodes, a majority", len(a.yes), t.h.Plan.Nodes)
	if t.h.Plan.Nodes == 1 {
		of = "the only node"
	}
	t.say(e.At, "%s asks%s for the lock, and %s %s yes: %s. It %s the lock, with token %s.",
		title(e.Lane), again, list(a.yes), verb(a.yes, "says", "say"), of, holds, t.h.token(e.Token))
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
