// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"math/bits"
	"slices"
	"strings"
	"testing"
)

// change is a run of nodes.smt with a mistake. A node is a letter, a set is written as letters.
type change struct {
	*Run
	t    *testing.T
	at   map[rune]int64
	sets map[string]int64
	all  map[string]map[string]int64 // the quorums of a set, by their nodes
	last int64                       // of the records
	ok   []string                    // what it accepts
}

func newChange(t *testing.T, variant, nodes string) *change {
	t.Helper()
	m, err := Read("../../spec/proof/nodes.smt")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(m.Variants, func(v Variant) bool { return v.Name == variant })
	wrong, err := m.With(m.Variants[i])
	if err != nil {
		t.Fatal(err)
	}
	r, err := wrong.Run()
	if err != nil {
		t.Fatal(err)
	}
	c := &change{Run: r, t: t, at: map[rune]int64{}, sets: map[string]int64{}, all: map[string]map[string]int64{}}
	for _, n := range nodes {
		c.at[n] = r.New("Node")
	}
	return c
}

// set makes a set and all its quorums of so many nodes.
func (c *change) set(nodes string, quorum int) string {
	s := c.New("NodeSet")
	c.sets[nodes], c.all[nodes] = s, map[string]int64{}
	for mask := range uint(1) << len(nodes) {
		if bits.OnesCount(mask) != quorum {
			continue
		}
		q, which := c.New("Quorum"), ""
		c.Set("of", s, q)
		for i, n := range nodes {
			if mask&(1<<i) != 0 {
				c.Set("member", 1, c.at[n], q)
				which += string(n)
			}
		}
		c.all[nodes][which] = q
	}
	return nodes
}

func (c *change) step(action string, args ...int64) {
	c.t.Helper()
	if err := c.Step(action, args...); err != nil {
		c.t.Fatal(err)
	}
}

// begin begins a generation after the last one, which differs from it by one set, and tells nodes of it.
func (c *change) begin(action, set, nodes string) {
	c.t.Helper()
	x := c.New("Record")
	c.Set("number", c.Get("number", c.last)+1, x)
	if action == "drop" {
		c.ok = slices.DeleteFunc(slices.Clone(c.ok), func(s string) bool { return s == set })
	} else {
		c.ok = append(slices.Clone(c.ok), set)
	}
	for _, s := range c.ok {
		c.Set("accepts", 1, x, c.sets[s])
	}
	c.step(action, x, c.last, c.sets[set])
	c.last = x
	for _, n := range nodes {
		c.step("tell", c.at[n], x)
	}
}

// leave waits until leases of clients with a set are over.
func (c *change) leave(set string) {
	c.t.Helper()
	c.step("block", c.sets[set])
	c.step("retire", c.sets[set])
}

// lease is granted to a client with a set by nodes.
func (c *change) lease(set, nodes string) error {
	c.t.Helper()
	r := c.New("Round")
	c.Set("with", c.sets[set], r)
	c.step("send", r)
	for _, n := range nodes {
		c.step("vote", c.at[n], r)
	}
	return c.Step("confirm", r, c.all[set][nodes])
}

func (c *change) twoHolders(set, nodes string) {
	c.t.Helper()
	if err := c.lease(set, nodes); err == nil || !strings.Contains(err.Error(), "promise sets is false") {
		c.t.Errorf("the second holder: %v", err)
	}
}

// From three nodes to others and back, at once: both changes have read that only the set in between is
// accepted, and each is heard by a quorum of its own.
func TestTwoChangesAtOnce(t *testing.T) {
	c := newChange(t, "two-changes-at-once", "abcd")
	old, both, next := c.set("abc", 2), c.set("abcd", 3), c.set("abd", 2)
	c.begin("add", old, "abc")
	c.begin("add", both, "abcd")
	c.begin("drop", old, "abcd")
	c.leave(old)
	read, ok := c.last, c.ok
	c.begin("add", next, "bd")
	c.last, c.ok = read, ok
	c.begin("add", old, "ac")
	if err := c.lease(next, "bd"); err != nil {
		t.Fatal(err)
	}
	c.twoHolders(old, "ac")
}

// From seven nodes to five, whose quorum is four, and at once to seven others: a client that has still the
// seven holds the name when one with the others comes.
func TestSetInBetween(t *testing.T) {
	c := newChange(t, "set-in-between-meets-only-those-beside-it", "abcdefghi")
	old, five, next := c.set("abcdefg", 4), c.set("abcde", 4), c.set("abcdehi", 4)
	c.begin("add", old, "abcdefg")
	if err := c.lease(old, "abfg"); err != nil {
		t.Fatal(err)
	}
	c.begin("add", five, "abcdefg")
	c.begin("drop", old, "abcdefg")
	c.begin("add", next, "abcdehi")
	c.twoHolders(next, "cdhi")
}
