// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// accepted reports whether a server takes s for the name of a node, by the rules of
// its PathUtils, which sees UTF-16.
func accepted(s string) bool {
	if s == "" || s == "." || s == ".." || s == "zookeeper" || strings.Contains(s, "/") {
		return false
	}
	for _, r := range s {
		if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return false
		}
	}
	return true
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"deploy", "a/b", ".", "..", "zookeeper", "%", "%2F", "a%2fb", "\U0001f512", "\ufffd", "\ue000", "日本", " "} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if driver.CheckName(a) != nil || driver.CheckName(b) != nil {
			return
		}
		x, y := encodeName(a), encodeName(b)
		if !accepted(x) {
			t.Errorf("%q is encoded as %q, which ZooKeeper does not accept", a, x)
		}
		if name, ok := decodeName(x); !ok || name != a {
			t.Errorf("%q is encoded as %q and decoded as %q, %v", a, x, name, ok)
		}
		if (x == y) != (a == b) {
			t.Errorf("%q and %q are both encoded as %q", a, b, x)
		}
	})
}

func FuzzChildren(f *testing.F) {
	for _, s := range []string{"_c_abc-lock-0000000001", "_c_x-slots3-0000000009", "x__lock__0000000002", "-2147483648", "lock-0000000001"} {
		f.Add(s, "_c_y-read-0000000003")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		l, err := readLine([]string{a, b, "_c_z-lock-0000000005"}, 0)
		if err != nil {
			return
		}
		for i := range l {
			if i >= l.holders() && len(l.before(i)) == 0 {
				t.Errorf("%v: the waiter %d watches nobody", l, i)
			}
		}
	})
}

func TestParseChild(t *testing.T) {
	for name, want := range map[string]child{
		"_c_qwertyuiopasdfgh-lock-0000000007":                     {seq: 7},
		"_c_5ae0b6a5-4b4f-4b0c-9a6a-6c8f1a0d3c11-lock-0000000012": {seq: 12}, // Curator
		"lock-0000000003": {seq: 3},
		"0123456789abcdef0123456789abcdef__lock__0000000004":         {seq: 4}, // kazoo
		"0123456789abcdef0123456789abcdef__rlock__0000000005":        {seq: 5, sharing: storekit.Sharing{Shared: true}},
		"_c_5ae0b6a5-4b4f-4b0c-9a6a-6c8f1a0d3c11-__READ__0000000006": {seq: 6, sharing: storekit.Sharing{Shared: true}},
		"_c_5ae0b6a5-4b4f-4b0c-9a6a-6c8f1a0d3c11-__WRIT__0000000007": {seq: 7},
		"_c_qwertyuiopasdfgh-read-0000000008":                        {seq: 8, sharing: storekit.Sharing{Shared: true}},
		"_c_qwertyuiopasdfgh-slots12-0000000009":                     {seq: 9, sharing: storekit.Sharing{Slots: 12}},
		"_c_qwertyuiopasdfgh-lock--2147483648":                       {seq: -2147483648},
	} {
		want.name = name
		if got, ok := parseChild(name); !ok || got != want {
			t.Errorf("%s is read as %+v, %v; want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "x", "lock", "lock-", "padlock-0000000001", "_c_x-lease-0000000001", "_c_x-slots0-0000000001",
		"_c_x-lock-1", "_c_x-lock-0000000001x", "_c_x-slots10000000000000000000-0000000001"} {
		if c, ok := parseChild(name); ok {
			t.Errorf("%s is read as %+v; want nothing", name, c)
		}
	}
}

// TestOverflow: nobody gets a lock whose numbers are about to run out.
func TestOverflow(t *testing.T) {
	for last, refused := range map[string]bool{"2146435071": false, "2146435072": true, "2147483647": true, "-2147483648": true} {
		if l, err := readLine([]string{"_c_a-lock-0000000007", "_c_b-lock-" + last}, 1); errors.Is(err, errOverflow) != refused {
			t.Errorf("readLine of node number %s = %v, %v; want it refused: %t", last, l, err, refused)
		}
	}
}

// TestReadsAtATime: a list of many names takes the time of a few trips, not of some for each name.
func TestReadsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), new(atomic.Int32)
		err := each(t.Context(), 2*maxReads, func(context.Context, int) error {
			calls.Add(1)
			time.Sleep(time.Second)
			return nil
		})
		if took := time.Since(began); err != nil || calls.Load() != 2*maxReads || took != 2*time.Second {
			t.Errorf("each = %v after %d calls and %v; want %d in 2s", err, calls.Load(), took, 2*maxReads)
		}
	})
}

// TestLine compares who holds and who is watched with what the kinds mean.
func TestLine(t *testing.T) {
	for _, c := range []struct {
		kinds   string // w: writer, r: reader, 2 and 3: slots
		holders int
		watched map[int]string // by waiter, the places that it watches
	}{
		{"w", 1, nil},
		{"ww", 1, map[int]string{1: "0"}},
		{"www", 1, map[int]string{2: "1"}},
		{"rrr", 3, nil},
		{"rrw", 2, map[int]string{2: "1"}},
		{"rrwrr", 2, map[int]string{2: "1", 3: "2", 4: "2"}},
		{"wrrr", 1, map[int]string{1: "0", 2: "0", 3: "0"}},
		{"wrw", 1, map[int]string{1: "0", 2: "1"}},
		{"22", 2, nil},
		{"222", 2, map[int]string{2: "01"}},
		{"22222", 2, map[int]string{2: "01", 3: "12", 4: "23"}},
		{"3333", 3, map[int]string{3: "012"}},
		{"23", 1, map[int]string{1: "0"}},
		{"2w2", 1, map[int]string{1: "0", 2: "1"}},
		{"r2", 1, map[int]string{1: "0"}},
		{"2r", 1, map[int]string{1: "0"}},
	} {
		var l line
		for i, k := range c.kinds {
			l = append(l, child{seq: int64(i), sharing: map[rune]storekit.Sharing{'r': {Shared: true}, '2': {Slots: 2}, '3': {Slots: 3}}[k]})
		}
		if n := l.holders(); n != c.holders {
			t.Errorf("%s: %d holders; want %d", c.kinds, n, c.holders)
		}
		for i, want := range c.watched {
			got := ""
			for _, b := range l.before(i) {
				got += string(rune('0' + b.seq))
			}
			if got != want {
				t.Errorf("%s: %d watches %s; want %s", c.kinds, i, got, want)
			}
		}
	}
}

// TestNobodyIsForgotten removes nodes one by one in every order. Whoever comes to
// hold the name has watched one of those that have gone since it looked last.
func TestNobodyIsForgotten(t *testing.T) {
	kinds := []storekit.Sharing{{}, {Shared: true}, {Slots: 2}, {Slots: 3}}
	var try func(l line, watching map[int64]line)
	try = func(l line, watching map[int64]line) {
		for out := range l {
			rest := slices.Delete(slices.Clone(l), out, out+1)
			next := make(map[int64]line)
			for i, c := range rest {
				w, waited := watching[c.seq]
				woken := waited && w.index(l[out].name) >= 0
				if i < rest.holders() {
					if waited && !woken {
						t.Fatalf("%v: %d came to hold the name without being woken", l, c.seq)
					}
				} else if next[c.seq] = w; woken {
					next[c.seq] = rest.before(i)
				}
			}
			try(rest, next)
		}
	}
	const most = 5
	var build func(l line)
	build = func(l line) {
		if len(l) == most {
			watching := make(map[int64]line)
			for i := l.holders(); i < len(l); i++ {
				watching[l[i].seq] = l.before(i)
			}
			try(l, watching)
			return
		}
		for _, k := range kinds {
			build(append(slices.Clone(l), child{name: string(rune('a' + len(l))), seq: int64(len(l)), sharing: k}))
		}
	}
	build(nil)
}
