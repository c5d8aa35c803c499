// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"strings"
	"testing"
)

// tag is what a cluster hashes of a key, by its specification.
func tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if i := strings.Index(rest, "}"); i > 0 {
			return rest[:i]
		}
	}
	return key
}

func TestLayout(t *testing.T) {
	names := []string{"a", "{a}", "{a}b", "x{a}", "a:queue", "{a}:queue", "deploy/prod", "a b", "é"}
	for _, pattern := range []string{"", "*", "lock:*", "*:lock", "{app}:*", "{*}", "a{*}b"} {
		l, err := New("pawl:", pattern)
		if err != nil {
			t.Fatal(err)
		}
		all := make(map[string]string)
		for _, name := range names {
			if l.Check(name) != nil {
				continue
			}
			lock := l.Lock(name)
			if got, ok := l.Name(lock); !ok || got != name {
				t.Errorf("%q: the name of %q is %q, %v; want %q", pattern, lock, got, ok, name)
			}
			for _, suffix := range []string{"", ":queue", ":token", ":ended:LEASE"} {
				key := lock
				if suffix != "" {
					key = l.Beside(lock) + suffix
				}
				if tag(key) != tag(lock) {
					t.Errorf("%q: %q is not in the slot of %q", pattern, key, lock)
				}
				if other := all[key]; other != "" && pattern != "" {
					t.Errorf("%q: %q is a key of %q and of %q", pattern, key, name, other)
				}
				all[key] = name
			}
			if got, ok := l.NameBeside(l.Beside(lock)+":queue", ":queue"); !ok || got != name {
				t.Errorf("%q: the name beside %q is %q, %v; want %q", pattern, lock, got, ok, name)
			}
		}
	}
}

// TestLayoutsOfOtherPrefixes: no key beside a lock is also one of a layout with another prefix.
func TestLayoutsOfOtherPrefixes(t *testing.T) {
	mine, err := New("pawl", "{*}")
	if err != nil {
		t.Fatal(err)
	}
	key := mine.Beside(mine.Lock("a")) + ":queue"
	for _, prefix := range []string{"pawl", "pawl:", "pawl="} {
		other, err := New(prefix, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := other.Beside(other.Lock("a")) + ":queue"; got == key {
			t.Errorf("with the prefix %q the queue has the key %q, too", prefix, key)
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	for _, pattern := range []string{"lock", "*/*", "pawl:*", "a\n*"} {
		if _, err := New("pawl:", pattern); err == nil {
			t.Errorf("the pattern %q is accepted", pattern)
		}
	}
	if _, err := New("a{b", ""); err == nil {
		t.Error("a prefix with a brace is accepted")
	}
	for _, c := range [][2]string{{"lock:*", "a}b"}, {"lock:*", "{}a"}, {"*", "pawl:x"}, {"{*", "a"}} {
		l, err := New("pawl:", c[0])
		if err != nil {
			t.Fatal(err)
		}
		if l.Check(c[1]) == nil {
			t.Errorf("%q with the name %q is accepted", c[0], c[1])
		}
		if name, ok := l.Name(l.Lock(c[1])); ok {
			t.Errorf("%q is the key of %q", l.Lock(c[1]), name)
		}
	}
}
