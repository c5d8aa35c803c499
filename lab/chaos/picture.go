// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/check"
	"github.com/pawl-go/pawl/lab/sim"
)

// view returns the picture of the time around a violation, in the form of package sim: a lane
// for each client that used the name then, and a lane for the faults.
func (r *run) view(v check.Violation) *sim.View {
	from, to := r.around(v)
	at := func(t int64) time.Duration { return time.Duration(min(max(t, from), to) - from) }
	view := &sim.View{
		Title: fmt.Sprintf("%s on %s, seed %d", v.Name, r.store, r.seed), Note: "As the clients have written it down, by the clock of the machine.",
		Verdict: "UNSAFE: " + string(v.Rule), Bad: true, End: time.Duration(to - from),
	}
	for _, w := range r.present(v.Name, from, to) {
		var rows []sim.Lane // leases that a process believed at the same time need several lanes
		for _, c := range r.result.Claims {
			if c.Worker != w || c.Name != v.Name || c.Asked >= to || last(c, to) <= from {
				continue
			}
			if slices.Contains(v.Claims, c) {
				view.Story = append(view.Story, sim.Sentence{At: at(cmp.Or(c.From, c.Granted, c.Asked)), Text: story(c)})
			}
			if !c.Believed() || c.From >= to || c.To <= from {
				continue
			}
			i := slices.IndexFunc(rows, func(l sim.Lane) bool { return l.Spans[len(l.Spans)-1].To <= at(c.From) })
			if i < 0 {
				i, rows = len(rows), append(rows, sim.Lane{Name: w})
			}
			rows[i].Spans = append(rows[i].Spans, sim.Span{Kind: sim.Trusts, From: at(c.From), To: at(c.To),
				N: len(view.Lanes) + i + 1, Text: fmt.Sprint("token ", c.Token), Shared: c.Kind != "alone"})
		}
		view.Lanes = append(view.Lanes, rows...)
	}
	defer short(view, r.result.Claims)
	view.Holders = r.holders(v.Name, from, to)
	view.Lanes = append(view.Lanes, r.faultLane(from, to, view))
	view.Story = append(view.Story, sim.Sentence{At: at(v.At), Text: v.Text, Bad: true})
	slices.SortStableFunc(view.Story, func(a, b sim.Sentence) int { return cmp.Compare(a.At, b.At) })
	return view
}

// present returns the workers that asked for or held a name between from and to.
func (r *run) present(name string, from, to int64) []string {
	var workers []string
	for _, c := range r.result.Claims {
		if c.Name == name && !slices.Contains(workers, c.Worker) && c.Asked < to && last(c, to) > from {
			workers = append(workers, c.Worker)
		}
	}
	slices.Sort(workers)
	return workers
}

// around returns the time that the picture shows: the violation, and the begin of the leases
// that it concerns, unless that was long before.
func (r *run) around(v check.Violation) (from, to int64) {
	room := max(v.Until-v.At, int64(100*time.Millisecond))
	from, to = v.At-room, v.Until+room/2
	for _, c := range v.Claims {
		if c.From != 0 && c.From < from && v.At-c.From < int64(4*r.ttl) {
			from = c.From - room/10
		}
	}
	return from, to
}

func last(c *check.Claim, end int64) int64 {
	if c.Granted == 0 && c.Done == 0 {
		return end
	}
	return max(c.Asked, c.Granted, c.To, c.Done)
}

func story(c *check.Claim) string {
	switch {
	case c.Granted == 0 && c.Done == 0:
		return fmt.Sprintf("%v: asked, and has not been answered", c)
	case c.Granted == 0:
		return fmt.Sprintf("%v: %s", c, c.Failed)
	}
	s := fmt.Sprintf("%v begins, %v after it was asked for", c, time.Duration(c.Granted-c.Asked).Round(time.Millisecond))
	if c.Lost != "" {
		s += "; it ends: " + c.Lost
	}
	return s
}

// faultLane returns the lane of the faults, and adds them to the story.
func (r *run) faultLane(from, to int64, view *sim.View) sim.Lane {
	lane := sim.Lane{Name: "faults"}
	for _, h := range r.nemesis.past {
		if h.from >= to || h.to <= from {
			continue
		}
		f, t := time.Duration(max(h.from, from)-from), time.Duration(min(h.to, to)-from)
		lane.Spans = append(lane.Spans, sim.Span{Kind: sim.IsDown, From: f, To: t, Text: h.kind})
		view.Story = append(view.Story, sim.Sentence{At: f, Text: "Fault: " + h.kind + h.notes})
	}
	return lane
}

// holders counts the holders at each time: the believed leases, where all readers together
// count as one, and a full set of slots counts as one.
func (r *run) holders(name string, from, to int64) []sim.Span {
	edges := []int64{from, to}
	var all []*check.Claim
	for _, c := range r.result.Claims {
		if c.Name == name && c.Believed() && c.From < to && c.To > from {
			all = append(all, c)
			edges = append(edges, max(c.From, from), min(c.To, to))
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	var spans []sim.Span
	for i := 1; i < len(edges); i++ {
		alone, shared, slots, room := 0, 0, 0, 1
		for _, c := range all {
			switch {
			case c.From > edges[i-1] || c.To < edges[i]:
			case c.Kind == "shared":
				shared = 1
			case c.Kind == "slots":
				slots, room = slots+1, c.Slots
			default:
				alone++
			}
		}
		spans = append(spans, sim.Span{From: time.Duration(edges[i-1] - from), To: time.Duration(edges[i] - from), N: alone + shared + (slots+room-1)/room})
	}
	return spans
}

// short replaces the long tokens in a picture by short numbers. Tokens may have 16 digits.
func short(view *sim.View, claims []*check.Claim) {
	var text strings.Builder
	for _, l := range view.Lanes {
		for _, s := range l.Spans {
			text.WriteString(s.Text + ";")
		}
	}
	for _, s := range view.Story {
		text.WriteString(s.Text + ";")
	}
	var all []uint64
	for _, c := range claims {
		if c.Token >= 1e6 && strings.Contains(text.String(), fmt.Sprint("token ", c.Token)) {
			all = append(all, c.Token)
		}
	}
	slices.Sort(all)
	var pairs []string
	for i, t := range slices.Compact(all) {
		pairs = append(pairs, fmt.Sprint("token ", t), fmt.Sprint("T", i+1))
	}
	replace := strings.NewReplacer(pairs...).Replace
	for _, l := range view.Lanes {
		for i := range l.Spans {
			l.Spans[i].Text = replace(l.Spans[i].Text)
		}
	}
	for i := range view.Story {
		view.Story[i].Text = replace(view.Story[i].Text)
	}
}
