// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestWatchOfAStoreThatIsGone: it is told, and when the store answers again, and what has happened
// in between; and that a store is closed.
func TestWatchOfAStoreThatIsGone(t *testing.T) {
	w := newWorld(t)
	addr := startRedis(t)
	link := drivertest.NewLink(t, addr)
	p := w.pawl("watch", "-s", "redis://"+link.Addr())
	says := func(text string) {
		t.Helper()
		w.until(text, func() bool {
			if p.ended() {
				t.Fatalf("it has ended: %v, stderr %q", p.err, p.stderr())
			}
			return strings.Contains(p.stdout(), text)
		})
	}
	says("  closed    redis://" + link.Addr() + " grants nothing for ")
	store := w.blessed("redis://" + addr)
	says("  open      ")
	holder := w.pawl("run", "-s", store, "deploy", "--", "sh", "-c", holdUntil)
	says("  granted   deploy  ")
	link.Set(drivertest.Resets)
	says("  silent    redis://" + link.Addr() + " does not answer")
	w.free(holder)
	if strings.Contains(p.stdout(), "released") {
		t.Errorf("it tells what it cannot know:\n%s", p.stdout())
	}
	link.Set(drivertest.Healthy)
	says("  answers   ")
	says("  released  deploy  ")
	p.signal(syscall.SIGTERM)
	p.end(-int(syscall.SIGTERM))
}
