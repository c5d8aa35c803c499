// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// first begins a change from three of four nodes to three.
func first(t testing.TB, f fleet, to ...int) *change {
	t.Helper()
	var next fleet
	for _, i := range to {
		next = append(next, f[i])
	}
	c, err := newChange(t.Context(), f[:3].url(), next.url(), withMaxTTL(changeTTL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// follows returns the generation after the present one.
func (c *change) follows(sets ...epoch.Set) epoch.Sets {
	return epoch.Sets{Gen: c.now.Gen + 1, OK: sets}
}

// TestNodeDecides: what one node says of ballots.
func TestNodeDecides(t *testing.T) {
	t.Parallel()
	f := startFour(t, withMaxTTL(changeTTL))
	c := first(t, f, 0, 1, 3)
	n := c.nodes[f[0].Addr]
	now, mine, other := content(c.now), c.follows(c.old, c.both), c.follows(c.old)
	later, after := content(mine), epoch.Sets{Gen: mine.Gen + 1, OK: []epoch.Set{c.both}}
	says := func(mode, now string, b ballot, yes bool, accepted uint64, what string) {
		t.Helper()
		o, err := n.decide(t.Context(), mode, now, b, "a change")
		if err != nil || o.yes != yes || o.accepted != accepted {
			t.Errorf("%s: the node says %+v, %v; want %t, with ballot %d accepted", what, o, err, yes, accepted)
		}
		if o.accepted > 0 && (o.follow != content(mine) && o.follow != content(after) || o.of != "a change") {
			t.Errorf("%s: the node has accepted %q of %q", what, o.follow, o.of)
		}
	}
	a, b, a2 := ballot{1, "A", mine}, ballot{2, "B", other}, ballot{2, "A", mine}
	says("accept", now, a, false, 0, "a ballot that it was not asked of")
	says("ask", strings.Replace(now, "2:", "3:", 1), a, false, 0, "other sets than it has recorded")
	says("ask", now, a, true, 0, "the first ballot")
	says("ask", now, a, true, 0, "the first ballot again")
	says("ask", now, ballot{1, "B", other}, false, 0, "another of the same number")
	says("accept", now, ballot{1, "B", other}, false, 0, "another of the same number")
	says("accept", now, a, true, 1, "the ballot that it was asked of")
	says("ask", now, b, true, 1, "a later ballot")
	says("ask", now, a2, false, 1, "one of the same number as the later one")
	says("accept", now, a, false, 1, "the ballot that came before")
	says("ask", now, a, false, 1, "the ballot that came before")
	c.now = mine
	if err := c.tell(t.Context(), enough{}); err != nil {
		t.Fatal(err)
	}
	says("ask", now, ballot{9, "B", other}, false, 0, "the generation before")
	says("ask", later, ballot{1, "A", after}, true, 0, "the next generation")
	says("accept", later, ballot{1, "A", after}, true, 1, "the next generation")
	f[0].do("flushall")
	is := mine
	is.Self = f[0].Addr
	if err := n.server.Record(t.Context(), is); err != nil {
		t.Fatal(err)
	}
	o, err := n.decide(t.Context(), "ask", later, ballot{9, "B", after}, "")
	if err != nil || o.yes || o.closed <= 0 {
		t.Errorf("a node that has forgotten says %+v, %v", o, err)
	}
	f[0].do("set", "pawl:epoch:next", content(after)+" 9 A 9 x another life")
	f[:1].bless(t, alone())
	o, err = n.decide(t.Context(), "ask", later, ballot{1, "B", after}, "")
	if err != nil || !o.yes || o.accepted > 0 {
		t.Errorf("a node that said something of sets that it does not have says %+v, %v", o, err)
	}
}

// alone are the options of one node alone.
func alone() *Options {
	opts := withMaxTTL(changeTTL)
	opts.AllowSingle = true
	return opts
}

// TestOtherChange: a change that has begun keeps another one out, wherever it was interrupted, until it
// goes on; one that no node has agreed to does not.
func TestOtherChange(t *testing.T) {
	t.Parallel()
	f := startFour(t, withMaxTTL(changeTTL))
	mine, other := first(t, f, 0, 1, 3), first(t, f, 0, 1)
	next := mine.follows(mine.old, mine.both)
	ask := func(mode string, number uint64, which ...int) {
		t.Helper()
		for _, i := range which {
			o, err := mine.nodes[f[i].Addr].decide(t.Context(), mode, content(mine.now), ballot{number, "crashed", next}, "mine")
			if err != nil || !o.yes {
				t.Fatalf("the node says %+v, %v", o, err)
			}
		}
	}
	ask("ask", 7, 0, 1, 2)
	ask("accept", 7, 1)
	want := func(err error) {
		t.Helper()
		if !errors.Is(err, ErrOtherChange) {
			t.Errorf("the other change: %v; want ErrOtherChange", err)
		}
	}
	err := other.record(t.Context(), quorumOf(other.old), epoch.Sets{OK: []epoch.Set{other.old}})
	if want(err); err != nil && !strings.Contains(err.Error(), "under way: mine: end that one first") {
		t.Errorf("the error %q does not name the change", err)
	}
	step, err := ChangeNodes(t.Context(), f[:3].url(), fleet{f[0], f[1], f[3]}.url(), withMaxTTL(changeTTL))
	if err != nil || step.Quorum != 3 || len(step.Unheard) > 0 {
		t.Errorf("the same change = %+v, %v", step, err)
	}
	want(other.record(t.Context(), quorumOf(other.old), epoch.Sets{OK: []epoch.Set{other.old}})) // which has read the generation before
	_, err = ChangeNodes(t.Context(), f[:3].url(), f[:2].url(), withMaxTTL(changeTTL))
	want(err)
}

// TestChangesInARace: of many changes that propose what follows at the same time not two get their way.
func TestChangesInARace(t *testing.T) {
	t.Parallel()
	f := startFour(t, withMaxTTL(changeTTL))
	var all []*change
	for range 4 {
		all = append(all, first(t, f, 0, 1, 3))
	}
	for range 30 {
		var work sync.WaitGroup
		errs := make([]error, len(all))
		for i, c := range all {
			work.Go(func() {
				next := c.follows(c.old)
				if i%2 == 1 {
					next = c.follows(c.old, c.both)
				}
				errs[i] = c.decide(t.Context(), next)
			})
		}
		work.Wait()
		if (errs[0] == nil || errs[2] == nil) && (errs[1] == nil || errs[3] == nil) {
			t.Fatalf("two generations %d are decided: %v", all[0].now.Gen+1, errs)
		}
		// Whoever comes alone finds out what was decided, and goes on with that.
		next := all[0].follows(all[0].old)
		err := all[0].decide(t.Context(), next)
		if errors.Is(err, ErrOtherChange) {
			next = all[0].follows(all[0].old, all[0].both)
			err = all[0].decide(t.Context(), next)
		}
		if err != nil {
			t.Fatalf("nobody can go on: %v; before %v", err, errs)
		}
		if errs[0] == nil && len(next.OK) == 2 || errs[1] == nil && len(next.OK) == 1 {
			t.Fatalf("%v was decided, after %v", next, errs)
		}
		for _, c := range all {
			c.now = next
		}
		if err := all[0].tell(t.Context(), enough{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUndo: a change whose new nodes are not there is undone after its first step, and another one is made.
func TestUndo(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(changeTTL)
	f := startFour(t, opts)
	gone := fleet{startServer(t), startServer(t)}
	gone[0].kill()
	gone[1].kill()
	from, to := f[:3].url(), append(f[:3:3], gone...).url()
	if _, err := ChangeNodes(t.Context(), from, to, opts); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("the first step = %v; want ErrUnavailable", err)
	}
	if _, err := ChangeNodes(t.Context(), from, fleet{f[0], f[1], f[3]}.url(), opts); !errors.Is(err, ErrOtherChange) {
		t.Errorf("another change = %v; want ErrOtherChange", err)
	}
	step, err := ChangeNodes(t.Context(), to, from, opts)
	if err != nil || !step.Last || len(step.Nodes) != 3 {
		t.Fatalf("the way back is %+v, %v", step, err)
	}
	if record := f[0].do("get", "pawl:epoch"); strings.Contains(record, gone[0].Addr) {
		t.Errorf("after that a node has recorded %s", record)
	}
	if !openFor(t, from, opts) {
		t.Error("a client of the old nodes gets nothing after that")
	}
	to = fleet{f[0], f[1], f[3]}.url()
	for _, s := range []struct {
		from, to string
		quorum   int
		last     bool
	}{{from, to, 3, false}, {from, to, 0, false}, {to, from, 0, false}, {to, from, 0, true}} {
		if step, err = ChangeNodes(t.Context(), s.from, s.to, opts); err != nil || step.Quorum != s.quorum || step.Last != s.last {
			t.Fatalf("a step of another change, there and back, is %+v, %v; want %+v", step, err, s)
		}
	}
	if len(step.Nodes) != 3 || step.Nodes[2] == f[3].Addr || !openFor(t, from, opts) {
		t.Errorf("the store is %v after that", step.Nodes)
	}
}

// openFor reports whether a client of these nodes is granted leases.
func openFor(t testing.TB, url string, opts *Options) bool {
	t.Helper()
	g, err := openDriver(t, url, opts).TryAcquire(t.Context(), lasting("job", changeTTL))
	if err != nil {
		t.Log(err)
		return false
	}
	g.Release(t.Context())
	return true
}

// TestLatestAccepted: of changes that were both interrupted the one with the later ballot goes on, and the
// other is kept out.
func TestLatestAccepted(t *testing.T) {
	t.Parallel()
	f := startFour(t, withMaxTTL(changeTTL))
	c := first(t, f, 0, 1, 3)
	early, late := c.follows(c.old), c.follows(c.old, c.both)
	begin := func(b ballot, which int) {
		t.Helper()
		for _, mode := range []string{"ask", "accept"} {
			if o, err := c.nodes[f[which].Addr].decide(t.Context(), mode, content(c.now), b, "a change"); err != nil || !o.yes {
				t.Fatalf("%s: the node says %+v, %v; the change has read %s", mode, o, err, content(c.now))
			}
		}
	}
	one, two := opinion{yes: true, accepted: 1, of: "early"}, opinion{yes: true, accepted: 2, of: "late"}
	for _, said := range [][]opinion{{one, two}, {two, one}} {
		if got := latestAccepted(said); got.of != "late" {
			t.Errorf("of ballots 1 and 2 the one of %s goes on", got.of)
		}
	}
	// As if each had been asked by a majority.
	begin(ballot{1, "early", early}, 0)
	begin(ballot{3, "late", late}, 1)
	begin(ballot{2, "again", early}, 2)
	if err := c.decide(t.Context(), early); !errors.Is(err, ErrOtherChange) {
		t.Errorf("the earlier change: %v; want ErrOtherChange", err)
	}
	if err := c.decide(t.Context(), late); err != nil {
		t.Errorf("the later change: %v", err)
	}
}

// TestOvertaken: one node that has recorded a later generation is enough for a change to end, also if the majority
// has forgotten what it agreed to.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	f := startFour(t, withMaxTTL(changeTTL))
	c := first(t, f, 0, 1, 3)
	later := c.follows(c.old, c.both)
	later.Self = f[2].Addr
	if err := c.nodes[f[2].Addr].server.Record(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if err := c.decide(t.Context(), c.follows(c.old)); !errors.Is(err, ErrOtherChange) {
		t.Errorf("a change of before = %v; want ErrOtherChange", err)
	}
}
