// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/internal/proof"
)

// Recorded is that a node has recorded which sets of nodes are accepted.
type Recorded struct {
	Node int
	At   int64
	Text string // the record of the epoch
}

// accepted is what a record says of sets.
type accepted struct {
	self       string
	content    string // without self
	generation int64
	sets       []string // that are accepted
	from       string   // that is accepted no more, of a set in between
}

var inRecord = regexp.MustCompile(`(\S+?);((\d+);(\S*;))`)

// readSets reads the record of an epoch, or the sets alone.
func readSets(text string) (a accepted, ok bool) {
	f := inRecord.FindStringSubmatch(text)
	if f == nil {
		return a, false
	}
	a.self, a.content, a.generation = f[1], f[2], int64(number(f[3]))
	for s := range strings.SplitSeq(strings.TrimSuffix(f[4], ";"), ";") {
		if from, is := strings.CutPrefix(s, "from="); is {
			a.from = from
		} else {
			a.sets = append(a.sets, s)
		}
	}
	return a, true
}

// sets holds changes of the nodes against nodes.smt. What nobody does, or does without a word, is done as early as it can
// be: to block a set, to say that it is no longer used, and to take another one for the base.
type sets struct {
	*proof.Run
	nodes   map[string]int64 // by id
	at      map[int]string   // the ids of servers
	all     map[string]int64 // sets
	ids     map[string][]string
	records map[string]int64 // by content
	latest  accepted
	last    int64 // of the records
}

func newSets(m *proof.Model) (*sets, error) {
	run, err := m.Run()
	if err != nil {
		return nil, err
	}
	s := &sets{Run: run, nodes: map[string]int64{}, at: map[int]string{}, all: map[string]int64{}, ids: map[string][]string{}, records: map[string]int64{}}
	s.last = s.New("Record")
	s.Set("none", s.last)
	s.Set("latest", s.last)
	return s, nil
}

func (s *sets) node(id string) int64 {
	if s.nodes[id] == 0 {
		s.nodes[id] = s.New("Node")
		s.Set("record", s.Get("none"), s.nodes[id])
	}
	return s.nodes[id]
}

// set returns a set of nodes, with all its smallest quorums.
func (s *sets) set(text string) int64 {
	if x, ok := s.all[text]; ok {
		return x
	}
	x := s.New("NodeSet")
	s.all[text], s.ids[text] = x, idsOf(text)
	for other, y := range s.all {
		s.Set("most", half(text, other), x, y)
		s.Set("most", half(other, text), y, x)
	}
	var choose func(from int, chosen []string)
	choose = func(from int, chosen []string) {
		if len(chosen) == quorumOf(text) {
			q := s.New("Quorum")
			s.Set("of", x, q)
			for _, id := range chosen {
				s.Set("member", 1, s.node(id), q)
			}
			return
		}
		for i := from; i < len(s.ids[text]); i++ {
			choose(i+1, append(slices.Clone(chosen), s.ids[text][i]))
		}
	}
	choose(0, nil)
	return x
}

func idsOf(set string) []string {
	_, ids, _ := strings.Cut(set, ":")
	return strings.Split(ids, ",")
}

func quorumOf(set string) int {
	q, _, _ := strings.Cut(set, ":")
	n, _ := strconv.Atoi(q)
	return n
}

// half says whether each quorum of a set has more than half of the nodes of another.
func half(set, of string) int64 {
	ids := idsOf(of)
	strange := slices.DeleteFunc(idsOf(set), func(id string) bool { return slices.Contains(ids, id) })
	if 2*(quorumOf(set)-len(strange)) > len(ids) {
		return 1
	}
	return 0
}

// recorded is called when a node has recorded something.
func (s *sets) recorded(r Recorded) error {
	a, ok := readSets(r.Text)
	if !ok {
		return fmt.Errorf("server %d has recorded %q", r.Node, r.Text)
	}
	s.at[r.Node] = a.self
	if s.records[a.content] == 0 {
		if err := s.begin(a); err != nil {
			return err
		}
	}
	n, x := s.node(a.self), s.records[a.content]
	var err error
	switch has := s.Get("record", n); {
	case s.Get("number", has) < s.Get("number", x):
		err = s.Step("tell", n, x)
	case has != x:
		err = s.Step("lose", n, x)
	}
	if err != nil {
		return fmt.Errorf("%s records %s: %w", a.self, a.content, err)
	}
	for _, set := range s.all {
		_ = s.Step("block", set)
	}
	return nil
}

// begin is a generation that nobody has recorded before.
func (s *sets) begin(a accepted) error {
	x := s.New("Record")
	s.records[a.content] = x
	s.Set("number", a.generation, x)
	for _, set := range a.sets {
		s.Set("accepts", 1, x, s.set(set))
	}
	action, changed := "add", slices.DeleteFunc(slices.Clone(a.sets), func(t string) bool { return slices.Contains(s.latest.sets, t) })
	if len(changed) == 0 {
		action, changed = "drop", slices.DeleteFunc(slices.Clone(s.latest.sets), func(t string) bool { return slices.Contains(a.sets, t) })
	}
	if len(changed) != 1 {
		return fmt.Errorf("from %s to %s it is more than one set", s.latest.content, a.content)
	}
	for _, set := range s.all {
		_ = s.Step("retire", set)
	}
	set := s.set(changed[0])
	for _, base := range s.all {
		if action == "add" && s.Get("most", set, s.Get("base")) == 0 && s.Get("most", set, base) == 1 {
			_ = s.Step("turn", base)
		}
	}
	if err := s.Step(action, x, s.last, set); err != nil {
		return fmt.Errorf("%s %s, after %s: %w", action, changed[0], s.latest.content, err)
	}
	s.latest, s.last = a, x
	return nil
}
