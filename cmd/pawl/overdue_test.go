// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestKilledHolder: whoever waits for a process that was killed is told when its lease ends.
func TestKilledHolder(t *testing.T) {
	w := newWorld(t)
	store := w.blessed("redis://" + startRedis(t))
	holder := w.holds("-s", store, "x")
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
