// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func TestTableFits(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for _, c := range []struct {
		name, holder, why string
		want              string // the cells of the line after fitting
	}{
		{"deploy", "alice@ci (pid 1)", "release 7", "deploy|alice@ci (pid 1)|release 7"},
		{"deploy", long, "release 7", "deploy|" + strings.Repeat("ä", 60) + "…|release 7"},
		{"deploy", long, long, "deploy|" + strings.Repeat("ä", 34) + "…|" + strings.Repeat("ä", 34) + "…"},
		{long, long, "short", strings.Repeat("ä", 58) + "…|" + strings.Repeat("ä", 11) + "…|short"},
		{long, long, long, strings.Repeat("ä", 51) + "…|" + strings.Repeat("ä", 11) + "…|" + strings.Repeat("ä", 11) + "…"},
	} {
		tab := table{{"NAME", "HOLDER", "WHY"}, {c.name, c.holder, c.why}}
		tab.fit(80, []int{1, 2})
		tab.fit(80, []int{0})
		if got := strings.Join(tab[1], "|"); got != c.want {
			t.Errorf("%.10s %.10s %.10s: got %s, want %s", c.name, c.holder, c.why, got, c.want)
		}
		var b strings.Builder
		if err := tab.print(&b, 0, []int{1, 2}, 0); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(line) - 1; n > 80 {
				t.Errorf("a line has %d characters: %s", n, line)
			}
		}
	}
}

// A pipe gets everything.
func TestTableInAPipe(t *testing.T) {
	var b strings.Builder
	long := strings.Repeat("x", 200)
	if err := (table{{"NAME", "WHY"}, {"deploy", long}}).print(&b, 0, []int{1}, 0); err != nil || !strings.Contains(b.String(), long) {
		t.Errorf("%v: %s", err, &b)
	}
}

func TestLsOrder(t *testing.T) {
	held := func(name string, since time.Duration, waiters int) *pawl.Info {
		return &pawl.Info{Name: name, Holders: []driver.Held{{Acquired: time.Now().Add(-since)}}, Waiters: make([]driver.Waiter, waiters)}
	}
	for order, want := range map[lsOrder]string{"name": "a b c d", "age": "b a d c", "waiting": "c a b d"} {
		infos := []*pawl.Info{held("a", time.Minute, 1), held("b", time.Hour, 1), {Name: "c", Waiters: make([]driver.Waiter, 2)}, held("d", time.Second, 0)}
		slices.SortStableFunc(infos, lsOrders[order])
		var names []string
		for _, i := range infos {
			names = append(names, i.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("by %s: %s, want %s", order, got, want)
		}
	}
}
