// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// renewed marks the request of a caller that renews soon.
func renewed(req *driver.Request) *driver.Request {
	req.Renewed = true
	return req
}

// TestHanded: a message that the lock was handed over is the grant, of whatever kind,
// without another request, and its renewal makes it last. It is not trusted for longer
// than the server keeps it.
func TestHanded(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	for _, c := range []struct {
		name   string
		change func(*driver.Request)
		asks   bool // the waiter asks once more
	}{
		{"exclusive", func(*driver.Request) {}, false},
		{"shared", func(req *driver.Request) { req.Shared = true }, false},
		{"slot", func(req *driver.Request) { req.Slots = 2 }, false},
		{"short TTL", func(req *driver.Request) { req.TTL = claimTTL / 2 }, false},
		{"not renewed", func(req *driver.Request) { req.Renewed = false }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := renewed(long(c.name))
			c.change(req)
			handOver(t, r, a, b, req, c.asks)
		})
	}
}

// handOver hands a lock from a to b, and checks whether b asks the server, and how long
// b trusts the lease.
func handOver(t *testing.T, r *redis, a, b *party, req *driver.Request, asks bool) {
	t.Helper()
	held := take(t, a, long(req.Name))
	for tries := 1; ; tries++ { // on a busy machine a message may come too late
		w := wait(t, r, b, req)
		before := scriptCalls(r)
		free := driver.Now()
		release(t, held)
		g := w.granted(patience)
		asked := scriptCalls(r) > before+1
		end := g.Since().Add(req.TTL - driver.Drift(req.TTL))
		if g.Token() <= held.Token() || g.Since() > w.at || !asked && end > w.at.Add(claimTTL) {
			t.Fatalf("token %d after %d, trusted from %v until %v after the release", g.Token(), held.Token(), g.Since().Sub(free), end.Sub(free))
		}
		if asked != asks && tries < 5 {
			held, req.Lease = g, rename(req.Lease)
			continue
		}
		if asked != asks {
			t.Errorf("the waiter has asked the server again: %v; want %v", asked, asks)
		}
		since, err := g.Renew(t.Context(), req.TTL)
		if err != nil || since < w.at {
			t.Errorf("Renew = %v, %v; want an instant after the grant", since, err)
		}
		release(t, g)
		return
	}
}

func rename(lease string) string { return lease + "x" }

// TestHandedToClient: such a lease is renewed at once, and never suspect.
func TestHandedToClient(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a := openClient(t, r)
	suspect, renewals := make(chan pawl.Event, 10), make(chan pawl.Event, 10)
	opts := longOptions()
	opts.Observer = pawl.Observer{Suspect: func(e pawl.Event) { suspect <- e }, Renewed: func(e pawl.Event) { renewals <- e }}
	b, err := Open(t.Context(), r.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for tries := 0; len(renewals) == 0; tries++ { // see TestHanded
		held := try(t, a, "deploy")
		next := acquiring(t, r, b, 1)
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := <-next
		if l == nil {
			t.FailNow()
		}
		full := func() bool { return time.Until(l.Deadline()) > pawl.DefaultTTL/2 }
		if !eventually(patience, full) || l.State() != pawl.StateHeld {
			t.Fatalf("the lease is %v, until in %v; want it renewed", l.State(), time.Until(l.Deadline()))
		}
		if tries > 5 {
			t.Fatal("no lease was handed over")
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(suspect) > 0 {
		t.Errorf("the lease became suspect: %+v", <-suspect)
	}
}

// TestStoppedBeforeReading: a process is stopped before it reads the message that it
// has the lock, until somebody else has the lock. It must not trust the message.
func TestStoppedBeforeReading(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openClient(t, r), openClient(t, r)
	for range 3 {
		held := try(t, a, "deploy")
		first := startChildren(t, 1, r.url())[0]
		first.say("acquire %v", childTTL)
		if !eventually(patience, func() bool { return queueLen(r, "deploy") == 1 }) {
			t.Fatal("the process does not come to wait")
		}
		next := acquiring(t, r, b, 2)
		first.signal(syscall.SIGSTOP)
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := <-next
		if l == nil {
			t.FailNow()
		}
		first.signal(syscall.SIGCONT)
		// It looks, and waits again.
		if !eventually(patience, func() bool { return len(first.lines) > 0 || queueLen(r, "deploy") == 1 }) {
			t.Error("the process does not come to wait again")
		}
		if len(first.lines) > 0 && l.Err() == nil {
			t.Fatalf("two have the lock: %d, and the process, which says %q", l.Token(), <-first.lines)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		var token pawl.Token
		first.hear("got %d", &token)
		if token <= l.Token() {
			t.Errorf("token %d after %d", token, l.Token())
		}
		first.kill()
		r.do("del", lockKey(defaultPrefix, "deploy"))
	}
}

// TestClusterHanded: the same in a cluster, unless the node no longer has the slot.
func TestClusterHanded(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	c.bless(longOptions())
	a, b := open(t, c.url(), longOptions()), open(t, c.url(), longOptions())
	name := c.nameOn(0, "handed")
	handOver(t, c.masters[0], a, b, renewed(long(name)), false)
	take(t, a, long(name))
	s, events := wired(t, c.url(), longOptions())
	first := listening(t, s, name)
	run := epoch.ParseInfo(c.masters[0].do("info", "server"))["run_id"]
	told := func() any {
		s.hear(first.at, fmt.Sprintf("grant LEASE %s 7 1000000 500 %s 3 1", lockKey(defaultPrefix, name), run))
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
	if err != nil {
		t.Fatal(err)
	}
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
	if !eventually(patience, func() bool {
		var err error
		if ans, err = s.Ask(t.Context(), req); err != nil || ans.Granted {
			t.Fatalf("Ask = %v, %v; want a place in the queue", ans, err)
		}
		return ans.Session != nil
	}) {
		t.Fatal("the client does not come to listen")
	}
	return ans.Session.(session)
}

// TestReadTerms: the terms of a hand-over are read, or ignored as a whole.
func TestReadTerms(t *testing.T) {
	for _, terms := range []string{"", " 1", " 1 2 x run 0 0", " 1 2 3 run 0", " -1 2 3 run 0 0", " 1 2 3 run x 0"} {
		var e driver.Event
		if run := readTerms(&e, terms); run != unguarded || e.Grant.Token != 0 {
			t.Errorf("readTerms(%q) = %q, %+v; want nothing", terms, run, e)
		}
	}
	var e driver.Event
	if run := readTerms(&e, " 7 1000000 500 run 3 1 more"); run != "run" || e.Grant.Token != 7 || e.Grant.At != time.Second || e.For != time.Second/2 || e.Grant.Spare != 3 || !e.Grant.Waited {
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
		s.hear(from, fmt.Sprintf("grant LEASE %s 7 1000000 500 %s 3 1", lockKey(defaultPrefix, "deploy"), run))
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
		{"a run that does not tell", here.at, unguarded, false},
		{"no connection", conn.Session{}, run, false},
		{"another server", elsewhere.at, run, false},
	} {
		if got := told(c.from, c.run); (got == here) != c.want {
			t.Errorf("%s: %v, and the look was answered by %v", c.what, got, here)
		}
	}
	if got := told(here.at, unguarded); got != nil {
		t.Errorf("the message of a run that does not tell came over %v; want nothing to trust", got)
	}
	alone(asWire(s)).Do(t.Context(), alone(asWire(s)).Client.B().Arbitrary("QUIT").Build())
	next(t, events, driver.Missed)
	if !eventually(patience, func() bool { now, _ := s.server.Session("deploy"); return now != here.at && now != conn.Session{} }) {
		t.Fatal("the client does not connect again")
	}
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

// TestCancelledWhileHanded: a waiter that gives up in the instant of the hand-off keeps
// nothing.
func TestCancelledWhileHanded(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openClient(t, r), openClient(t, r)
	for i := range 50 {
		held := try(t, a, "deploy")
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan *pawl.Lease, 1)
		go func() {
			l, err := b.Acquire(ctx, "deploy")
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire = %v", err)
			}
			got <- l
		}()
		if !eventually(patience, func() bool { return queueLen(r, "deploy") == 1 }) {
			t.Fatal("nobody waits")
		}
		go func() { time.Sleep(time.Duration(i) * 20 * time.Microsecond); cancel() }()
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l := <-got; l != nil {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		cancel()
		free, end := context.WithTimeout(t.Context(), patience)
		l, err := a.Acquire(free, "deploy")
		end()
		if err != nil {
			t.Fatalf("round %d: Acquire = %v", i, err)
		}
		_ = l.Release(t.Context())
	}
}

// TestHandedThenForgotten: the server forgets all, or restarts, between the message and
// the renewal: the lease ends with the claim, before anybody else has the name.
func TestHandedThenForgotten(t *testing.T) {
	t.Parallel()
	for what, forget := range map[string]func(*redis){"restart": (*redis).restart, "FLUSHALL": forgets["FLUSHALL"]} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := startServer(t)
			const ttl = claimTTL / 2 // also the length of the quarantine
			opts := &Options{MaxTTL: ttl}
			opts.TTL = ttl
			if err := Bless(t.Context(), r.url(), opts); err != nil {
				t.Fatal(err)
			}
			a, b := open(t, r.url(), opts), open(t, r.url(), opts)
			req := func() *driver.Request {
				req := renewed(long("deploy"))
				req.TTL = ttl
				return req
			}
			link := drivertest.NewLink(t, r.Addr)
			c := open(t, "redis://"+link.Addr(), opts)
			held := take(t, a, req())
			mine := req()
			w := wait(t, r, c, mine)
			release(t, held)
			g := w.granted(patience)
			link.Set(drivertest.BlackHole) // its renewals never arrive
			forget(r)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			next, err := b.Acquire(ctx, req())
			if err != nil {
				t.Fatal(err)
			}
			if early := g.Since().Add(mine.TTL - driver.Drift(mine.TTL)).Sub(driver.Now()); early > 0 {
				t.Errorf("the name was granted %v before the deadline of the lease that was handed over", early)
			}
			link.Set(drivertest.Healthy)
			release(t, next)
		})
	}
}
