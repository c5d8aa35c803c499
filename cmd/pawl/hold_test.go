// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// A signal is the end that a hold is meant to have, unless it did not have the lock yet.
func TestHoldEndsAtSignals(t *testing.T) {
	w := newWorld(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		held := w.pawl("hold", "x", "--for", "600", "--why", "test")
		w.until("it is held", func() bool { return strings.Contains(held.stderr(), "holding") })
		waits := w.pawl("hold", "x", "--for", "10m", "--why", "test")
		w.until("another waits", func() bool { return strings.Contains(waits.stderr(), "waiting") })
		w.pawl("wait", "-n", "-q", "x").end(exit.Busy)
		waits.signal(sig)
		if sig == syscall.SIGINT {
			waits.end(-int(sig)) // so that a script that we are part of ends too
		} else {
			waits.end(128 + int(sig))
		}
		held.signal(sig)
		held.end(0)
		w.pawl("wait", "-n", "x").end(0)
		w.pawl("run", "-n", "x", "true").end(0)
	}
}

// A hold that was stopped for longer than its TTL says that it has lost the lock.
func TestHoldThatWasPaused(t *testing.T) {
	w := newWorld(t)
	store := "redis://" + startRedis(t) + "?assume_new=true"
	held := w.pawl("hold", "x", "-s", store, "--ttl", "6s", "--for", "10m", "--why", "test")
	w.until("it is held", func() bool { return held.ended() || strings.Contains(held.stderr(), "holding") })
	if held.ended() {
		t.Fatalf("it has ended: %v, stderr %q", held.err, held.stderr())
	}
	held.signal(syscall.SIGSTOP)
	w.pawl("run", "-s", store, "x", "true").end(0)
	held.signal(syscall.SIGCONT)
	held.end(exit.Lost, `pawl: lost: "x": `)
}

// Nothing is free while the store may have forgotten a lock, or does not answer.
func TestWaitForServer(t *testing.T) {
	w := newWorld(t)
	server := servers.StartRedis(t)
	store := "redis://" + server.Addr + "?max_ttl=90m"
	wait := func(words ...string) *proc { return w.pawl(append([]string{"wait", "x", "-s", store}, words...)...) }
	closed := wait("-w", "50ms")
	closed.end(exit.Unavailable, "not free after 50ms; the server has just started", "pawl bless")
	waits := wait()
	w.until("it says why", func() bool { return strings.Contains(waits.stderr(), "the server has just started") })
	w.pawl("bless", "-s", store, "--yes").end(0)
	waits.end(0)

	holder := w.holds("-s", store, "x")
	waits = wait("-w", "5s")
	w.until("it waits", func() bool { return strings.Contains(waits.stderr(), "held by") })
	_ = syscall.Kill(server.Pid(), syscall.SIGSTOP)
	waits.end(exit.Unavailable)
	_ = syscall.Kill(server.Pid(), syscall.SIGCONT)
	if got := waits.stderr(); !strings.Contains(got, "does not answer") || strings.Contains(got, "free") {
		t.Errorf("of a server that is silent stderr is %q", got)
	}
	w.free(holder)
	wait("-w", "20s").end(0)
}
