// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/internal/proof"
)

//go:embed decide.lua
var decideLua string

// TracedDecide returns the script decide of redlock in another that writes down each step.
func TracedDecide(script string) string {
	return "local function script()\n" + script + "\nend\n" + decideLua
}

// deciding holds what nodes say of the generation that follows one against decide.smt.
type deciding struct {
	*proof.Run
	now     accepted
	voters  []string
	nodes   map[string]int64
	ballots []*ballot
}

// ballot is what a change proposes. Its number and the id of the change are its name.
type ballot struct {
	number    uint64
	id, value string
	at        int64
}

// CheckDecisions returns how many steps nodes have made to decide on generations, and what is wrong with them.
func (tr *Trace) CheckDecisions(m *proof.Model) (n int, wrong []error) {
	var all []step
	judges := map[string]*deciding{} // by the content of the generation that is followed
	known := map[int64]string{}      // the content of a generation
	fail := func(err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("no step of the formulas: %w", err))
		}
	}
	for _, c := range tr.Calls {
		if c.Script != "decide" || c.Answers[0] != 1 {
			continue
		}
		all = append(all, step{c.At, 0, func() {
			d := judges[c.Args[1]]
			if d == nil {
				var err error
				if d, err = newDeciding(m, c.Args[1]); err != nil {
					fail(err)
					return
				}
				judges[c.Args[1]] = d
			}
			fail(d.said(c))
		}})
	}
	for _, r := range tr.Records {
		all = append(all, step{r.At, 1, func() {
			a, ok := readSets(r.Text)
			switch {
			case !ok || a.generation < 2 || known[a.generation] == a.content:
			case known[a.generation] != "":
				fail(fmt.Errorf("generation %d is %s, and %s", a.generation, known[a.generation], a.content))
			default:
				known[a.generation] = a.content
				err := fmt.Errorf("nobody has decided anything after generation %d", a.generation-1)
				for _, d := range judges {
					if d.now.generation == a.generation-1 {
						err = d.decided(a.content)
					}
				}
				fail(err)
			}
		}})
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), a.rank-b.rank) })
	for _, s := range all {
		if s.do(); wrong != nil {
			return n, wrong
		}
		n++
	}
	return n, nil
}

// newDeciding is for what follows a generation. The smallest set that is in its record decides.
func newDeciding(m *proof.Model, content string) (*deciding, error) {
	run, err := m.Run()
	if err != nil {
		return nil, err
	}
	now, ok := readSets("-;" + content)
	if !ok {
		return nil, fmt.Errorf("a change follows %q", content)
	}
	sets := now.sets
	if now.from != "" {
		sets = append(slices.Clone(sets), now.from)
	}
	d := &deciding{Run: run, now: now, nodes: map[string]int64{}}
	d.voters = idsOf(slices.MinFunc(sets, func(a, b string) int { return len(idsOf(a)) - len(idsOf(b)) }))
	for _, id := range d.voters {
		d.nodes[id] = d.New("Node")
	}
	d.Set("none", d.New("Ballot"))
	return d, nil
}

func (d *deciding) ballot(number uint64, id, value string) *ballot {
	for _, b := range d.ballots {
		if b.number == number && b.id == id && b.value == value {
			return b
		}
	}
	b := &ballot{number: number, id: id, value: value, at: d.New("Ballot")}
	d.Set("before", 1, d.Get("none"), b.at)
	for _, o := range d.ballots {
		if cmp.Or(cmp.Compare(o.number, number), strings.Compare(o.id, id)) < 0 {
			d.Set("before", 1, o.at, b.at)
		} else {
			d.Set("before", 1, b.at, o.at)
		}
		if o.value == value {
			d.Set("value", d.Get("value", o.at), b.at)
		}
	}
	if d.Get("value", b.at) == 0 {
		d.Set("value", d.New("Value"), b.at)
	}
	d.ballots = append(d.ballots, b)
	return b
}

// said is called when a node has said yes.
func (d *deciding) said(c Call) error {
	what := fmt.Sprintf("%s says yes: %q, after it %q", c.Self, c.Args, c.Said)
	n := d.nodes[c.Self]
	if n == 0 {
		return fmt.Errorf("%s, and is none of %v", what, d.voters)
	}
	b := d.ballot(number(c.Args[2]), c.Args[3], c.Args[4])
	var err error
	if c.Args[0] == "ask" {
		err = d.Step("heed", n, b.at)
	} else {
		if d.Get("proposed", b.at) == 0 {
			err = d.proposes(b)
		}
		if err == nil {
			err = d.Step("accept", n, b.at)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %s", what, strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	latest := &ballot{}
	for _, o := range d.ballots {
		if d.Get("accepted", n, o.at) == 1 && (latest.at == 0 || d.Get("before", latest.at, o.at) == 1) {
			latest = o
		}
	}
	want := fmt.Sprintf("%s %d %s %d ", d.now.content, b.number, b.id, latest.number)
	if latest.at != 0 {
		want += latest.value + " "
	}
	if !strings.HasPrefix(c.Said, want) {
		return fmt.Errorf("%s; by the formulas %q", what, want)
	}
	return nil
}

// proposes is called before the first node accepts a ballot: a majority has heeded it by then, and what it has
// accepted before is nothing else. Which majority has answered the change is not known: any will do.
func (d *deciding) proposes(b *ballot) (err error) {
	err = fmt.Errorf("no majority has heeded it")
	d.majorities("heeded", b, func(q int64, ids []string) bool {
		latest := d.Get("none")
		for _, id := range ids {
			for _, o := range d.ballots {
				if d.Get("accepted", d.nodes[id], o.at) == 1 && d.Get("before", o.at, b.at) == 1 && d.Get("before", latest, o.at) == 1 {
					latest = o.at
				}
			}
		}
		err = d.Step("propose", b.at, q, latest)
		return err == nil
	})
	return err
}

// decided is called when a generation is recorded.
func (d *deciding) decided(content string) error {
	err := fmt.Errorf("%s is recorded after %s, and no majority of %v has accepted it", content, d.now.content, d.voters)
	for _, b := range d.ballots {
		if b.value == content {
			d.majorities("accepted", b, func(q int64, _ []string) bool {
				err = cmp.Or(d.Step("decide", b.at, q), d.Holds())
				return err == nil
			})
		}
	}
	return err
}

// majorities calls f for each majority of which all have done something with a ballot, until it returns true.
func (d *deciding) majorities(what string, b *ballot, f func(q int64, ids []string) bool) {
	var ids []string
	for _, id := range d.voters {
		if d.Get(what, d.nodes[id], b.at) == 1 {
			ids = append(ids, id)
		}
	}
	for mask := range 1 << len(ids) {
		var chosen []string
		for i, id := range ids {
			if mask&(1<<i) != 0 {
				chosen = append(chosen, id)
			}
		}
		if len(chosen) != len(d.voters)/2+1 {
			continue
		}
		q := d.New("Quorum")
		for _, id := range chosen {
			d.Set("member", 1, d.nodes[id], q)
		}
		if f(q, chosen) {
			return
		}
	}
}
