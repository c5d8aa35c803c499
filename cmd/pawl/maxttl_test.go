// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
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
