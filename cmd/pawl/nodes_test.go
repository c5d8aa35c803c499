// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// TestNodes: programs with other nodes than the rest are refused, and a node that is none of the store's counts as down.
func TestNodes(t *testing.T) {
	w := newWorld(t)
	var addrs []string
	for range 4 {
		addrs = append(addrs, startRedis(t))
	}
	url := func(query string, which ...int) string {
		var of []string
		for _, i := range which {
			of = append(of, addrs[i])
		}
		return "redlock://" + strings.Join(of, ",") + "?node_timeout=1s&max_ttl=5s" + query
	}
	from, more := url("", 0, 1, 2), url("&quorum=3", 0, 1, 2, 3)
	w.pawl("bless", "-s", from, "--yes").end(0)
	run := func(store string, code int, want string) {
		t.Helper()
		p := w.pawl("run", "-s", store, "--ttl", "5s", "job", "true")
		p.end(code, want)
	}
	run(from, 0, "")
	run(more, exit.Config, addrs[3]+" not in the store's")
	show := w.pawl("nodes", "-s", from)
	show.end(0)
	show.prints(addrs[2])
	to := url("", 0, 1, 3)
	change := func(code int, want string, words ...string) {
		t.Helper()
		p := w.pawl(append([]string{"nodes", "change", "--to", to, "--from"}, words...)...)
		p.end(code)
		if !strings.Contains(p.stdout()+p.stderr(), want) {
			t.Errorf("the change says %q, %q; want %q", p.stdout(), p.stderr(), want)
		}
	}
	change(exit.Config, "name these as the old ones", more)
	change(0, "nothing is granted or renewed for 5", from)
	run(to, 0, "")
	run(more, exit.Config, addrs[2]+" not in the store's")
	change(exit.Config, "no change to these nodes is under way", from, "--abort")
	addrs = append(addrs, startRedis(t)) // which no program has named before
	odd := url("", 0, 1, 4)
	run(odd, 0, addrs[4]+": it answers, but counts as down")
	for _, words := range [][]string{{"show", "job"}, {"nodes"}} {
		p := w.pawl(append(words, "-s", odd)...)
		p.end(0)
		if !strings.Contains(p.stdout()+p.stderr(), "it answers, but counts as down") {
			t.Errorf("%s says of a node that is none of the store's: %q, %q", words[0], p.stdout(), p.stderr())
		}
	}
}
