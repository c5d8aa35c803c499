// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
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
			if !ok || e.name != one || e.record.Lease != "feed" || e.sharing != storekit.SharingOf(&req) {
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

// TestFractionsOfSeconds: etcd counts in seconds. It must not give less than was asked for.
func TestFractionsOfSeconds(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{1: 1, time.Second: 1, 1900 * time.Millisecond: 2, time.Minute: 60, time.Minute + 1: 61} {
		if got := seconds(ttl); got != want {
			t.Errorf("a TTL of %v is %d seconds; want %d", ttl, got, want)
		}
	}
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
