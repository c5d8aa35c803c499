// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// TestClusterHanded: the same in a cluster, unless the node no longer has the slot.
func TestClusterHanded(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	c.bless(longOptions())
	name := c.nameOn(0, "handed")
	take(t, open(t, c.url(), longOptions()), long(name))
	s, events := wired(t, c.url(), longOptions())
	first := listening(t, s, name)
	run := epoch.ParseInfo(c.masters[0].do("info", "server"))["run_id"]
	told := func() any {
		s.hear(first.at, fmt.Sprintf("grant LEASE 7 1000000 500 %s 3 1 %s", run, lockKey(defaultPrefix, name)))
		return next(t, events, driver.Granted).Grant.Session
	}
	if got := told(); got != first {
		t.Errorf("the message of the node that has the slot came over %v; want %v", got, first)
	}
	c.move(name, c.masters[0], c.masters[1], func() {})
	if ans, err := s.Ask(t.Context(), long(name)); err != nil || ans.Granted {
		t.Fatalf("Ask = %v, %v", ans, err)
	}
	if got := told(); got != nil {
		t.Errorf("the message of the node that had the slot came over %v; want nothing to trust", got)
	}
}

// wired returns a wire without its client half, and its events.
func wired(t testing.TB, url string, opts *Options) (*store, <-chan driver.Event) {
	t.Helper()
	s, _, err := connect(t.Context(), url, opts)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	events := make(chan driver.Event, 1000)
	s.Listen(func(e driver.Event) { events <- e })
	return s, events
}

// next returns the next event of a kind.
func next(t testing.TB, events <-chan driver.Event, kind driver.EventKind) driver.Event {
	t.Helper()
	for late := time.After(patience); ; {
		select {
		case e := <-events:
			if e.Kind == kind {
				return e
			}
		case <-late:
			t.Fatalf("no event of kind %v", kind)
		}
	}
}

// listening returns over what a waiter for a lock that is held hears messages.
func listening(t testing.TB, s *store, name string) session {
	t.Helper()
	_, stop := s.Hear(name)
	t.Cleanup(stop)
	req := long(name)
	req.Queue = true
	var ans driver.Answer
	await(t, "the client does not come to listen", func() bool {
		var err error
		if ans, err = s.Ask(t.Context(), req); err != nil || ans.Granted {
			t.Fatalf("Ask = %v, %v; want a place in the queue", ans, err)
		}
		return ans.Session != nil
	})
	return ans.Session.(session)
}

// TestReadTerms: the terms of a hand-over are read, or ignored as a whole.
func TestReadTerms(t *testing.T) {
	for _, terms := range []string{"", "1", "1 2 x run 0 0 key", "1 2 3 run 0 0", "-1 2 3 run 0 0 key", "1 2 3 run x 0 key"} {
		var e driver.Event
		if run, _ := readTerms(&e, terms); run != unguardedRun || e.Grant.Token != 0 {
			t.Errorf("readTerms(%q) = %q, %+v; want nothing", terms, run, e)
		}
	}
	var e driver.Event
	if run, key := readTerms(&e, "7 1000000 500 run 3 1 a key"); run != "run" || key != "a key" || e.Grant.Token != 7 || e.Grant.At != time.Second || e.For != time.Second/2 || e.Grant.Spare != 3 || !e.Grant.Waited {
		t.Errorf("readTerms = %q, %+v", run, e)
	}
}

// TestHandedOver: which messages came over what the waiter's last look was answered by.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	take(t, openLong(t, r), long("deploy"))
	run := epoch.ParseInfo(r.do("info", "server"))["run_id"]
	s, events := wired(t, r.url(), longOptions())
	here := listening(t, s, "deploy")
	other, _ := wired(t, r.url(), longOptions())
	elsewhere := listening(t, other, "deploy")
	told := func(from conn.Session, run string) any {
		s.hear(from, fmt.Sprintf("grant LEASE 7 1000000 500 %s 3 1 %s", run, lockKey(defaultPrefix, "deploy")))
		return next(t, events, driver.Granted).Grant.Session
	}
	for _, c := range []struct {
		what string
		from conn.Session
		run  string
		want bool
	}{
		{"the same way", here.at, run, true},
		{"another run", here.at, strings.Repeat("0", len(run)), false},
		{"a run that does not tell", here.at, unguardedRun, false},
		{"no connection", conn.Session{}, run, false},
		{"another server", elsewhere.at, run, false},
	} {
		if got := told(c.from, c.run); (got == here) != c.want {
			t.Errorf("%s: %v, and the look was answered by %v", c.what, got, here)
		}
	}
	if got := told(here.at, unguardedRun); got != nil {
		t.Errorf("the message of a run that does not tell came over %v; want nothing to trust", got)
	}
	alone(asWire(s)).Do(t.Context(), alone(asWire(s)).Client.B().Arbitrary("QUIT").Build())
	next(t, events, driver.Missed)
	await(t, "the client does not connect again", func() bool { now, _ := s.server.Session("deploy"); return now != here.at && now != conn.Session{} })
	if again := listening(t, s, "deploy"); again == here {
		t.Error("a look over a new connection is answered by the old one")
	}
	opts := longOptions()
	opts.WaitReplicas = 1
	s, events = wired(t, r.url(), opts)
	here = listening(t, s, "deploy")
	if got := told(here.at, run); got != nil {
		t.Errorf("a message that replicas may know nothing of came over %v; want nothing to trust", got)
	}
}

func asWire(s *store) *party { return &party{wire: wire{s}} }
