// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// happened is an event that watch prints.
type happened struct {
	Schema      int
	Time        time.Time
	Event, Name string
	Holder      *pawl.Held
	Waiter      *pawl.Waiter
	Seconds     float64
}

// told returns the events of a "pawl watch --json".
func told(t *testing.T, p *proc) (all []happened) {
	t.Helper()
	text := p.stdout()
	text = text[:strings.LastIndex(text, "\n")+1]
	for line := range strings.Lines(text) {
		var c happened
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Schema != report.Schema || c.Time.IsZero() {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, c)
	}
	return all
}

// TestWatch: on files and on a server, events come in the order in which they happened, with
// tokens that grow.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"file", "redis"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			url := "file://" + w.dir + "/locks"
			if kind == "redis" {
				url = w.blessed("redis://" + startRedis(t))
			}
			run := func(why, in, out string) *proc {
				return w.pawl("run", "-q", "-s", url, "--why", why, "deploy", "--", "sh", "-c", "touch "+in+"; until test -e "+out+"; do sleep 0.02; done")
			}
			old := run("old", "in0", "out0") // so that each watcher says that it has begun
			w.appears("in0")
			list, one := w.pawl("watch", "-s", url, "--json"), w.pawl("watch", "-s", url, "--json", "deploy")
			// says waits until both have seen it: what is over before that they may never see.
			var want []string
			says := func(event, why string) {
				t.Helper()
				want = append(want, event+" "+why)
				for _, p := range []*proc{list, one} {
					w.until(event+" "+why, func() bool { return len(told(t, p)) >= len(want) })
				}
			}
			says("held", "old")
			w.create("out0")
			old.end(0)
			says("released", "old")
			first := run("release 7", "in1", "out1")
			says("granted", "release 7")
			second := run("release 8", "in2", "out2")
			says("waiting", "release 8")
			hasty := run("hasty", "in3", "out3")
			says("waiting", "hasty")
			hasty.signal(syscall.SIGTERM)
			hasty.end(128 + int(syscall.SIGTERM))
			says("left", "hasty")
			w.create("out1")
			first.end(0)
			want = append(want, "released release 7")
			says("granted", "release 8")
			w.pawl("break", "-s", url, "deploy", "--force", "--why", "it hangs").end(0)
			second.end(exit.Lost)
			says("released", "release 8")

			for _, p := range []*proc{list, one} {
				var got []string
				var tokens []uint64
				for _, c := range told(t, p) {
					if c.Holder == nil {
						got = append(got, c.Event+" "+c.Waiter.Why)
						continue
					}
					got, tokens = append(got, c.Event+" "+c.Holder.Why), append(tokens, uint64(c.Holder.Token))
					if c.Event == "granted" && c.Holder.Why == "release 8" && (c.Waiter == nil || c.Waiter.Lease != c.Holder.Lease || c.Seconds <= 0) {
						t.Errorf("granted after %vs as %+v, to %+v", c.Seconds, c.Waiter, c.Holder)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("told %q, want %q", got, want)
				} else if tokens = tokens[2:]; tokens[0] == 0 || tokens[0] != tokens[1] || tokens[1] >= tokens[2] || tokens[2] != tokens[3] {
					t.Errorf("the tokens are %d", tokens)
				}
				p.signal(syscall.SIGINT)
				p.end(-int(syscall.SIGINT))
				if got := p.stderr(); got != "" && !strings.HasPrefix(got, "pawl: listing takes ") { // of a busy machine
					t.Errorf("stderr is %q", got)
				}
			}
		})
	}
}

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
