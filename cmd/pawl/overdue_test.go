// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// TestOverdue: a waiter is told once when a lease ends that is not renewed any more, and nothing of one
// that is.
func TestOverdue(t *testing.T) {
	const ttl = 30 * time.Second
	begin := time.Now()
	type look struct {
		at, until time.Duration // both after the begin
		lease     string
		tell      bool
		left      time.Duration
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := driver.Holder{Host: "another", PID: 1}
	for name, looks := range map[string][]look{
		"renewed at each third": {{0, 21 * time.Second, "a", false, 0}, {time.Second, ttl, "a", false, 0}, {10 * time.Second, ttl, "a", false, 0},
			{11 * time.Second, 40 * time.Second, "a", false, 0}, {20 * time.Second, 40 * time.Second, "a", false, 0}, {21 * time.Second, 50 * time.Second, "a", false, 0}},
		"not renewed": {{0, ttl, "a", false, 0}, {14 * time.Second, ttl, "a", false, 0}, {15 * time.Second, ttl, "a", true, 15 * time.Second},
			{16 * time.Second, ttl, "a", false, 14 * time.Second}, {31 * time.Second, ttl, "a", false, 0}},
		"in whole seconds":                       {{0, ttl, "a", false, 0}, {8 * time.Second, 31 * time.Second, "a", false, 0}, {15 * time.Second, ttl, "a", true, 15 * time.Second}},
		"renewed after all":                      {{0, ttl, "a", false, 0}, {15 * time.Second, ttl, "a", true, 15 * time.Second}, {16 * time.Second, 46 * time.Second, "a", false, 0}, {31 * time.Second, 46 * time.Second, "a", true, 15 * time.Second}},
		"followed by another":                    {{0, ttl, "a", false, 0}, {15 * time.Second, ttl, "a", true, 15 * time.Second}, {16 * time.Second, ttl, "b", false, 0}, {24 * time.Second, ttl, "b", true, 6 * time.Second}},
		"renewed, of a process that is not seen": {{0, ttl, "gone", true, ttl}, {10 * time.Second, 40 * time.Second, "gone", false, 0}, {20 * time.Second, 50 * time.Second, "gone", false, 0}},
		"without end, as a file":                 {{0, 0, "a", false, 0}, {time.Hour, 0, "a", false, 0}},
	} {
		var o outage
		for _, l := range looks {
			h := pawl.Held{Holder: elsewhere, Lease: l.lease}
			if l.lease == "gone" {
				h.Holder = driver.Holder{Host: host, PID: 1 << 30, Space: driver.PIDSpace()}
			}
			if l.until != 0 {
				h.Expires = begin.Add(l.until)
			}
			n := notice{info: &pawl.Info{Holders: []pawl.Held{h}}}
			if tell := o.told(&n, begin.Add(l.at)); tell != l.tell || n.ends != l.left {
				t.Errorf("%s, after %v: told = %v, it ends in %v; want %v and %v", name, l.at, tell, n.ends, l.tell, l.left)
			}
		}
	}
}

// TestKilledHolder: whoever waits for a process that was killed is told when its lease ends.
func TestKilledHolder(t *testing.T) {
	w := newWorld(t)
	store := w.blessed("redis://" + startRedis(t))
	holder := w.pawl("run", "-s", store, "x", "--", "sh", "-c", holdUntil)
	w.appears("in")
	var waiters []*proc
	for _, verb := range []string{"run", "wait"} {
		words := []string{verb, "-s", store, "x"}
		if verb == "run" {
			words = append(words, "true")
		}
		p := w.pawl(words...)
		w.until("it waits", func() bool { return strings.Contains(p.stderr(), "waiting for") })
		waiters = append(waiters, p)
	}
	holder.signal(syscall.SIGKILL)
	for _, p := range waiters {
		w.until("it says when the lease ends", func() bool { return strings.Contains(p.stderr(), "; its lease ends in ") })
		if strings.Count(p.stderr(), "its lease ends in ") != 1 || strings.Count(p.stderr(), "\n") != 2 {
			t.Errorf("it has said %q; want who holds the lock, and once when the lease ends", p.stderr())
		}
	}
	w.pawl("break", "-s", store, "x", "--force", "--why", "test").end(0)
	for _, p := range waiters {
		p.end(0)
	}
}
