// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestMaxTTL: programs with different settings on one Redis. None of them gets more than all have
// agreed on, nor closes the store for the others, and each is told what to do.
func TestMaxTTL(t *testing.T) {
	w := newWorld(t)
	s := servers.StartRedis(t)
	store := w.blessed("redis://" + s.Addr)
	run := func(query string, words ...string) *proc {
		return w.pawl(append([]string{"run", "-s", store + query}, words...)...)
	}

	refused := func(query string, words []string, want ...string) {
		t.Helper()
		run(query, words...).end(exit.Config, want...)
	}
	refused("", []string{"--ttl", "2m", "job", "true"}, "TTL 2m is longer than MaxTTL, which is 30s unless set: use a shorter one, as leases are renewed, "+
		"or set MaxTTL with pawl max-ttl 2m and ?max_ttl=2m in the URL of each client")
	refused("?max_ttl=12h", []string{"-n", "--ttl", "12h", "nightly", "true"}, "12h0m0s", "30s, set by", "pawl max-ttl 12h0m0s")
	w.pawl("ls", "-s", store+"?max_ttl=24h").end(0)
	w.pawl("show", "-s", store+"?max_ttl=24h", "job").end(0)
	run("", "job", "true").end(0)

	raise := w.pawl("max-ttl", "-s", store, "2m")
	raise.end(0, "pawl: warning: from now on, programs whose URL lacks ?max_ttl=2m0s are refused when they start")
	raise.prints("the longest --ttl is 2m0s, set by")
	again := w.pawl("max-ttl", "-s", store+"?max_ttl=2m", "2m")
	again.end(0)
	if again.stderr() != "" {
		t.Errorf("it says %q, though its URL has all", again.stderr())
	}
	w.diagnosis(store, 2, "max-ttl: the longest --ttl is 2m0s, set by ..., but this URL lacks ?max_ttl=2m0s, so programs that use it are refused")
	w.diagnosis(store+"?max_ttl=3m", 0)
	refused("", []string{"job", "true"}, "30s", "2m0s, set by", "max_ttl=2m0s")
	run("?max_ttl=2m", "--ttl", "2m", "job", "true").end(0)

	if out, err := s.Do("flushall"); err != nil {
		t.Fatal(out, err)
	}
	run("?max_ttl=2m", "-n", "job", "true").end(exit.Unavailable)
	for _, words := range [][]string{{"ls"}, {"show", "job"}} {
		w.pawl(append(words, "-s", store)...).end(0, "grants nothing for ", "until ", "may have forgotten", "2m0s, set by")
		look := w.pawl(append(words, "-s", store, "--json")...)
		look.end(0)
		look.prints(`"max_ttl": "2m0s"`, `"closed": "`, `"closed_until": `)
	}
}

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
