// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestWaitingForAStoreThatIsGone: whoever waits is told that the store does not answer, soon and for how
// long, and not that he is next; and when it answers again.
func TestWaitingForAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]drivertest.Fault{"cut off": drivertest.Resets, "silent": drivertest.BlackHole} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			addr := startRedis(t)
			store := w.blessed("redis://" + addr)
			link := drivertest.NewLink(t, addr)
			holder := w.holds("-s", store, "x")
			p := w.pawl("run", "-s", "redis://"+link.Addr(), "--ttl", "20s", "--events", "ev", "x", "true")
			w.until("it waits", func() bool { return strings.Contains(p.stderr(), "you are next") })
			link.Set(fault)
			said := func(text string) func() bool {
				return func() bool {
					if p.ended() {
						t.Fatalf("it has ended: %v, stderr %q", p.err, p.stderr())
					}
					return strings.Contains(p.stderr(), text)
				}
			}
			w.until("it says that the store does not answer", said("\npawl: waiting for \"x\": redis://"+link.Addr()+" does not answer; silent for "))
			w.until("the events say for how long", func() bool { return strings.Contains(w.read("ev"), `"unanswered":`) })
			link.Set(drivertest.Healthy)
			w.until("it says that the store answers", said(" answers again, after "))
			w.free(holder)
			p.end(0)
		})
	}
}

// TestWaitedInVainForAStore: that the lock was busy is not known then.
func TestWaitedInVainForAStore(t *testing.T) {
	w := newWorld(t)
	addr := startRedis(t)
	store := w.blessed("redis://" + addr)
	link := drivertest.NewLink(t, addr)
	holder := w.holds("-s", store, "x")
	p := w.pawl("run", "-s", "redis://"+link.Addr(), "--wait", "15s", "x", "true")
	w.until("it waits", func() bool { return strings.Contains(p.stderr(), "you are next") })
	link.Set(drivertest.BlackHole)
	p.end(exit.Unavailable, "does not answer")
	w.free(holder)
}

// TestKilledHolder: the holder is killed, and its waiter prints when the lease ends.
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
