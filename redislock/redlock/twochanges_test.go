// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// operator changes the nodes over links of their own, which can be cut.
type operator struct {
	links []*drivertest.Link
}

func newOperator(t testing.TB, f fleet) *operator {
	o := &operator{}
	for _, s := range f {
		o.links = append(o.links, drivertest.NewLink(t, s.Addr))
	}
	return o
}

func (o *operator) url(which ...int) string {
	var addrs []string
	for _, i := range which {
		addrs = append(addrs, o.links[i].Addr())
	}
	return "redlock://" + strings.Join(addrs, ",")
}

// reach cuts all links but these.
func (o *operator) reach(which ...int) {
	for _, l := range o.links {
		l.Set(drivertest.BlackHole)
	}
	for _, i := range which {
		o.links[i].Set(drivertest.Healthy)
	}
}

// change begins a change between nodes, with what is recorded now.
func (o *operator) change(t testing.TB, from, to []int) *change {
	t.Helper()
	c, err := newChange(t.Context(), o.url(from...), o.url(to...), withMaxTTL(changeTTL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// TestTwoChangesAtOnce: two operators make the last step but one at once, each reaching other nodes. If both
// succeed, clients of the one set and of the other have no node in common.
func TestTwoChangesAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		from, to  []int // of the other
		mine, his []int // reached
		clients   []int // of the other
	}{
		{"to different sets", []int{0, 1, 2}, []int{0, 2, 3}, []int{1, 3}, []int{0, 2}, []int{0, 2, 3}},
		{"there and back", []int{0, 1, 3}, []int{0, 1, 2}, []int{1, 3}, []int{0, 2}, []int{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opts := withMaxTTL(changeTTL)
			f := startFour(t, opts)
			if _, err := ChangeNodes(t.Context(), f[:3].url(), fleet{f[0], f[1], f[3]}.url(), opts); err != nil {
				t.Fatal(err)
			}
			mine, his := newOperator(t, f), newOperator(t, f)
			a := mine.change(t, []int{0, 1, 2}, []int{0, 1, 3})
			if err := a.record(t.Context(), halts(a.old), epoch.Sets{OK: []epoch.Set{a.both}, From: a.old}); err != nil {
				t.Fatal(err)
			}
			b := his.change(t, c.from, c.to)
			if err := a.pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			mine.reach(c.mine...)
			his.reach(c.his...)
			_, errA := a.step(t.Context(), a.new, a.both, a.new)
			_, errB := b.step(t.Context(), b.new, b.both, b.new)
			if errA == nil && errB == nil {
				t.Error("both changes succeed")
			}
			d, e := openDriver(t, mine.url(0, 1, 3), opts), openDriver(t, his.url(c.clients...), opts)
			g, err := d.TryAcquire(t.Context(), lasting("job", changeTTL))
			h, err2 := e.TryAcquire(t.Context(), lasting("job", changeTTL))
			if g != nil && h != nil && err == nil && err2 == nil {
				t.Error("two clients hold the name")
			}
		})
	}
}

// startFour starts four servers, of which three are in use.
func startFour(t testing.TB, opts *Options) fleet {
	t.Helper()
	f := make(fleet, 4)
	for i := range f {
		f[i] = startServer(t)
	}
	f[:3].bless(t, opts)
	g, err := openDriver(t, f[:3].url(), opts).TryAcquire(t.Context(), lasting("first", changeTTL))
	if err != nil {
		t.Fatal(err)
	}
	g.Release(t.Context())
	return f
}
