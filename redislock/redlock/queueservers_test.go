// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"fmt"
	"github.com/pawl-go/pawl/internal/nodewire"
	"strings"
	"testing"
	"time"
)

// TestPlacesAtServers: what a server looks at before it hands over a lock.
func TestPlacesAtServers(t *testing.T) {
	t.Parallel()
	node, server := single(t, patient())
	key := "pawl:redlock:{" + name + "}"
	bar, last := false, uint64(0)
	fresh := func() uint64 { // the next lease's is one more
		last = max(uint64(time.Now().UnixMicro()), last+2)
		return last
	}
	released := func(what string, want bool, change func()) {
		t.Helper()
		server.do("del", key, key+":waiters")
		token := fresh()
		if v, err := node.Propose(t.Context(), nodewire.Proposal{Name: name, Lease: "old", Token: token, TTL: time.Minute}); err != nil || !v.Has {
			t.Fatalf("%s: Propose = %+v, %v", what, v, err)
		}
		for i, lease := range []string{"first", "second"} {
			p := nodewire.Place{Name: name, Lease: lease, Place: uint64(i), For: time.Minute, Token: 1, TTL: time.Minute, Record: "{}"}
			if _, err := node.Enqueue(t.Context(), p); err != nil {
				t.Fatalf("%s: Enqueue = %v", what, err)
			}
		}
		change()
		had, next, err := node.End(t.Context(), nodewire.Ending{Name: name, Lease: "old", Bar: bar, Held: true, Next: token + 1})
		if err != nil || !had || next != want {
			t.Errorf("%s: End = %t, %t, %v; want that it hands over: %t", what, had, next, err, want)
		}
	}
	place := func() string { return server.do("get", key+":waiters:first") }
	set := func(old, new string) {
		s := place()
		if c := strings.Replace(s, old, new, 1); c == s {
			t.Fatalf("%q has no %q", s, old)
		} else {
			server.do("set", key+":waiters:first", c)
		}
	}
	has := func(lease string) bool { return server.has(name) && server.do("get", key)[:len(lease)] == lease }
	released("as it should be", true, func() { server.do("zadd", key+":wishes", "9e15", "first") })
	if !has("first") {
		t.Error("the first waiter has not got it")
	}
	if server.do("exists", key+":wishes") != "0" {
		t.Error("the wishes do not end with the writer")
	}
	released("a client that is gone", true, func() { set(node.server.ID, "gone") })
	if !has("second") {
		t.Error("the waiter behind one that is gone has not got it")
	}
	released("a client with other nodes", true, func() { set(" 60000 ", " 60000 9:other") })
	if !has("second") {
		t.Error("the waiter behind a stranger has not got it")
	}
	released("a waiter with a longer TTL than the store allows", false, func() { set(" 60000 ", " 60001 ") })
	if place() == "" || server.do("zrank", key+":waiters", "first") != "0" {
		t.Error("the waiter that may not have it has lost its place")
	}
	for _, bar = range []bool{false, true} {
		released("readers", false, func() { server.do("zadd", key+":listeners", "0", "reader") })
		server.do("del", key+":listeners", key+":ended:old")
	}
	bar = false
	released("a place that is over, of a waiter with a short TTL", true, func() {
		p := nodewire.Place{Name: name, Lease: "short", Place: 9, For: 20 * time.Millisecond, Token: 1, TTL: time.Minute, Record: "{}"}
		if _, err := node.Enqueue(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if !eventually(patience, func() bool { return server.do("exists", key+":waiters:short") == "0" }) {
			t.Fatal("a place does not end")
		}
	})
	if !has("first") {
		t.Error("the first waiter has not got it beside a place that is over")
	}
	released("a clock beyond 2^53", false, func() { set(" 1 60000 ", fmt.Sprintf(" %d 60000 ", uint64(nodewire.MaxToken+1))) })

	// A renewal gives a waiter the lock that it has not got here, and it stays in the queue.
	released("whoever is in the queue itself", true, func() {})
	token := fresh()
	server.do("del", key)
	if v, err := node.Propose(t.Context(), nodewire.Proposal{Name: name, Lease: "second", Token: token, TTL: time.Minute}); err != nil || !v.Has {
		t.Fatalf("Propose = %+v, %v", v, err)
	}
	if had, next, err := node.End(t.Context(), nodewire.Ending{Name: name, Lease: "second", Held: true, Next: token + 1}); err != nil || !had || next || server.has(name) {
		t.Errorf("End = %t, %t, %v; want that a lease that is released does not get the name again", had, next, err)
	}

	released("a lease that is behind others in the queue itself", true, func() {
		server.do("zadd", key+":waiters", "9", "old")
		server.do("set", key+":waiters:old", "x")
	})
	if left := server.do("zrange", key+":waiters", "0", "-1"); left != "second" || server.do("exists", key+":waiters:old") != "0" {
		t.Errorf("the queue is %q after the release; want second", left)
	}

	// A server without memory tells a waiter how the name is, though it cannot queue.
	server.do("config", "set", "maxmemory", "1")
	if _, err := node.Enqueue(t.Context(), nodewire.Place{Name: name, Lease: "late", For: time.Minute, Token: 1, TTL: time.Minute, Record: "{}"}); err != nil {
		t.Errorf("without memory: Enqueue = %v", err)
	}
	server.do("config", "set", "maxmemory", "0")

	// In quarantine, with a lock that it has kept.
	released("once more", true, func() {})
	value := server.do("get", key)
	server.restart()
	server.do("set", key, "old"+value[len("first"):], "px", "60000")
	if _, err := node.Enqueue(t.Context(), nodewire.Place{Name: name, Lease: "first", For: time.Minute, Token: 1, TTL: time.Minute, Record: "{}"}); err != nil {
		t.Fatal(err)
	}
	had, next, err := node.End(t.Context(), nodewire.Ending{Name: name, Lease: "old", Held: true, Next: uint64(time.Now().UnixMicro())})
	if err != nil || !had || next {
		t.Errorf("in quarantine: End = %t, %t, %v; want that it hands over to nobody", had, next, err)
	}
}

// TestHandOverByServers: a release is the grant of a client that waits, also where servers do not say
// which run they are in.
func TestHandOverByServers(t *testing.T) {
	t.Parallel()
	for _, guarded := range []bool{true, false} {
		opts := patient()
		var args []string
		if !guarded {
			opts.AllowUnguarded, args = true, []string{"--rename-command", "INFO", ""}
		}
		f := startFleet(t, 3, opts, args...)
		a, b := openDriver(t, f.url(), opts), openDriver(t, f.url(), opts)
		var took time.Duration
		handed := eventually(patience, func() bool { // a message may be lost while a client begins to listen
			g := await(t, a, long())
			req := long()
			req.Renewed = true
			got := acquire(t.Context(), b, req)
			queue := f[0]
			if !eventually(patience, func() bool { return queue.do("zcard", "pawl:redlock:{"+name+"}:waiters") == "1" }) {
				t.Fatal("nobody waits")
			}
			rounds, began := b.rounds.Load(), time.Now()
			release(t, g)
			next := <-got
			took = time.Since(began)
			if next == nil {
				t.Fatal("no lease")
			}
			release(t, next)
			return b.rounds.Load() == rounds
		})
		if !handed {
			t.Errorf("guarded %t: each time the waiter had to propose, the last after %v", guarded, took)
		}
	}
}
