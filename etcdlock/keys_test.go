// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-go/pawl/driver"
)

func in(key, from, to string) bool { return from <= key && key < to }

// FuzzKeys: the keys of a name are read back, are in the ranges of that name, and
// in those of no other.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"deploy", "a/b", "a", "a%2Fb", "%", "/", "//", "x", "x/", "a/x/lease", "ä", "日本", "0", "a0", "a\x7f", "..", "lock/", "%25"} {
		f.Add(s, "a")
		f.Add("a", s)
		f.Add(s, s+"/")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		if driver.CheckName(one) != nil || driver.CheckName(two) != nil {
			t.Skip()
		}
		s := &store{prefix: defaultPrefix, layout: layout{head: defaultPrefix + lockPart}}
		p, other := s.layout.place(one), s.layout.place(two)
		for _, req := range []driver.Request{{}, {Shared: true}, {Slots: 1}, {Slots: 12}} {
			req.Name = one
			key := p.key(&req, 0xfeed)
			e, ok := s.parse(&mvccpb.KeyValue{Key: []byte(key)})
			if !ok || e.name != one || e.record.Lease != "feed" || e.shared != req.Shared || e.slots != req.Slots {
				t.Errorf("%q is read as %+v, %v", key, e, ok)
			}
			from, to := p.all()
			if !in(key, from, to) {
				t.Errorf("%q is not in the range of its name", key)
			}
			if from, to = p.unshared(); in(key, from, to) == req.Shared {
				t.Errorf("%q: in the range of what is not shared: %v", key, !req.Shared)
			}
			if from, to = other.all(); one != two && in(key, from, to) {
				t.Errorf("%q of %q is in the range of %q", key, one, two)
			}
			if begins := strings.HasPrefix(key, s.prefix+lockPart+escape(two)); begins != strings.HasPrefix(one, two) {
				t.Errorf("List(%q) sees %q: %v", two, one, begins)
			}
		}
	})
}

func TestForeignKeysAreIgnored(t *testing.T) {
	s := &store{prefix: defaultPrefix, layout: layout{head: defaultPrefix + lockPart}}
	for _, key := range []string{"pawl/lock/a/x", "pawl/lock/a/x/", "pawl/lock/a/x/b/c", "pawl/lock/a/q/b", "pawl/lock/a/s0/b",
		"pawl/lock/a/s-1/b", "pawl/lock/a/sx/b", "pawl/client/a/x/b", "other/lock/a/x/b", ""} {
		if e, ok := s.parse(&mvccpb.KeyValue{Key: []byte(key)}); ok {
			t.Errorf("%q is read as %+v", key, e)
		}
	}
}

// TestCountAfterLook: one of the slots before a waiter went before its watch was
// there, and one between its look and its count, of which it has heard. It must look
// again, and not sleep until its next keepalive.
func TestCountAfterLook(t *testing.T) {
	keys := func(names ...string) map[string]bool {
		m := make(map[string]bool)
		for _, name := range names {
			m[name] = true
		}
		return m
	}
	rival := &entry{kv: &mvccpb.KeyValue{Key: []byte("a")}}
	told := 0
	l := &lease{s: &store{tell: func(driver.Event) { told++ }}, place: place{"dir/"}}
	w := &sight{key: "dir/", cancel: func() {}, gone: make(map[string]int64)}
	l.sight = w
	w.count(&looked{rev: 8, keys: keys("a", "b", "c"), enough: 1}) // after a has gone
	seen := &looked{rev: 10, rival: rival, keys: keys("b", "c"), enough: 1}
	if w.went("b", 11) {
		t.Fatal("the watch thinks that one of two is left: this shows nothing")
	}
	if l.watch(seen); told != 1 {
		t.Error("the waiter sleeps, and one of two slots is free")
	}
	if l.watch(&looked{rev: 12, rival: rival, keys: keys("c", "d"), enough: 1}); told != 1 {
		t.Error("the waiter looks again without a reason")
	}
}
