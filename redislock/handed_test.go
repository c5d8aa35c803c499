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
	"github.com/pawl-go/pawl/driver/storekit"
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
func handOver(t *testing.T, r *redis, a, b *store, req *driver.Request, asks bool) {
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
	var taken [2]bool
	for i := range taken {
		waiter := b.attempt(renewed(long(name)))
		listen(t, waiter)
		if _, _, fail := waiter.ask(t.Context(), true); fail != nil {
			t.Fatal(fail.Err)
		}
		w := &waiter.waiter
		run := epoch.ParseInfo(c.masters[0].do("info", "server"))["run_id"]
		if i == 1 {
			c.move(name, c.masters[0], c.masters[1], func() {})
			if _, err := b.TryAcquire(t.Context(), long(name)); !errors.Is(err, driver.ErrHeld) {
				t.Fatalf("TryAcquire = %v", err)
			}
		}
		w.seen.Sent = driver.Now()
		w.handed = &handed{Claim: storekit.Claim{At: w.seen.At, For: claimTTL, Heard: driver.Now()}, token: 1 << 60, run: run, from: w.seen.from}
		w.seen.At -= time.Second
		w.seen.Sent = w.seen.Sent.Add(-time.Second)
		taken[i] = waiter.take(w) != nil
	}
	if !taken[0] || taken[1] {
		t.Errorf("the message of the node that has the slot was taken: %v; of the one that had it: %v", taken[0], taken[1])
	}
}

// listen gives an attempt an open subscription.
func listen(t testing.TB, a *attempt) {
	t.Helper()
	a.waiter.subscription = a.s.server.Subscription(a.key)
	t.Cleanup(func() { a.s.server.Leave(a.key) })
	if !eventually(patience, func() bool { open, _, _ := a.waiter.subscription.State(); return open }) {
		t.Fatal("the client does not come to listen")
	}
}

// TestReadHanded: a message is read, or ignored as a whole.
func TestReadHanded(t *testing.T) {
	for _, told := range []string{"", " 1", " 1 2 x run 0 0", " 1 2 3 run 0", " -1 2 3 run 0 0", " 1 2 3 run x 0"} {
		if h := readHanded(conn.Session{}, told); h != nil {
			t.Errorf("readHanded(%q) = %+v; want nil", told, h)
		}
	}
	if h := readHanded(conn.Session{}, " 7 1000000 500 run 3 1 more"); h == nil || h.token != 7 || h.At != time.Second || h.For != time.Second/2 || h.run != "run" || h.spare != 3 || !h.waits {
		t.Errorf("readHanded = %+v", h)
	}
}

// TestHandedTake: which messages a waiter trusts.
func TestHandedTake(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	run := epoch.ParseInfo(r.do("info", "server"))["run_id"]
	take(t, s, long("deploy"))
	other := s.attempt(long("deploy"))
	listen(t, other)
	elsewhere := other.waiter.subscription.Session()
	for _, c := range []struct {
		what   string
		change func(a *attempt, h *handed)
		taken  bool
	}{
		{"in time", func(*attempt, *handed) {}, true},
		{"nothing", func(a *attempt, _ *handed) { a.waiter.handed = nil }, false},
		{"too late", func(_ *attempt, h *handed) { h.At -= claimTTL/2 + claimTTL/20 }, false},
		{"of another run", func(_ *attempt, h *handed) { h.run = strings.Repeat("0", len(run)) }, false},
		{"of a run that does not tell", func(_ *attempt, h *handed) { h.run = "-" }, false},
		{"replicas may lack it", func(a *attempt, _ *handed) { a.s.prompt = false }, false},
		{"not renewed", func(a *attempt, _ *handed) { a.req.Renewed = false }, false},
		{"heard over no connection", func(_ *attempt, h *handed) { h.from = conn.Session{} }, false},
		{"heard at another server", func(_ *attempt, h *handed) { h.from = elsewhere }, false},
		{"and so was the look", func(a *attempt, h *handed) { h.from, a.waiter.seen.from = elsewhere, elsewhere }, false},
		{"heard before the look, over another connection", func(a *attempt, _ *handed) { reconnected(t, a) }, false},
		{"then broken", func(a *attempt, h *handed) { a.s.hear(h.from, "lost "+a.req.Lease+" {}") }, false},
	} {
		s := openLong(t, r)
		a := s.attempt(renewed(long("deploy")))
		listen(t, a)
		if _, _, fail := a.ask(t.Context(), true); fail != nil {
			t.Fatal(fail.Err)
		}
		w := &a.waiter
		w.seen.Sent = driver.Now() // however long that took
		h := &handed{Claim: storekit.Claim{At: w.seen.At, For: claimTTL, Heard: driver.Now()}, token: 1 << 60, run: run, from: w.seen.from}
		s.mu.Lock()
		w.handed, s.waiters[a.req.Lease] = h, w
		s.mu.Unlock()
		w.seen.At -= 2 * claimTTL // so that what is late is not from before the look
		w.seen.Sent = w.seen.Sent.Add(-2 * claimTTL)
		c.change(a, h)
		if g := a.take(w); (g != nil) != c.taken {
			t.Errorf("%s: taken %v; want %v", c.what, g != nil, c.taken)
		}
	}
	opts := longOptions()
	opts.WaitReplicas = 1
	if s, err := newStore(opts); err != nil || s.prompt {
		t.Errorf("a store with WaitReplicas trusts messages, which replicas know nothing of (%v)", err)
	}
}

// reconnected makes the last look of an attempt one over a new connection.
func reconnected(t testing.TB, a *attempt) {
	t.Helper()
	ear := a.waiter.subscription
	before := ear.Session()
	r := alone(a.s)
	r.Do(t.Context(), r.Client.B().Arbitrary("QUIT").Build())
	if !eventually(patience, func() bool { s := ear.Session(); return s != before && s != conn.Session{} }) {
		t.Fatal("the client does not connect again")
	}
	a.waiter.seen.from = ear.Session()
}

// TestBrokenWhileHanded: the lease is broken before, or after, its waiter has turned
// the message into a grant. The waiter learns of it in both cases.
func TestBrokenWhileHanded(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	g := take(t, a, long("deploy"))
	req := renewed(long("deploy"))
	w := wait(t, r, b, req)
	b.mu.Lock() // the handler of the message waits here
	freed := make(chan error, 1)
	go func() { freed <- g.Release(context.Background()) }()
	key := lockKey(defaultPrefix, "deploy")
	if !eventually(patience, func() bool { return strings.HasPrefix(r.do("get", key), req.Lease) }) {
		b.mu.Unlock()
		t.Fatal("the lock is not handed over")
	}
	if err := a.Break(t.Context(), "deploy", req.Lease, &driver.Holder{Who: "admin"}, "a test"); err != nil {
		t.Error(err)
	}
	b.mu.Unlock()
	<-freed
	<-w.done
	var lost error
	if n, ok := w.grant.(driver.Notifier); ok && w.err == nil {
		told := make(chan error, 1)
		n.OnLost(func(err error) { told <- err })
		select {
		case lost = <-told:
		case <-time.After(patience):
		}
	} else {
		lost = w.err
	}
	if !errors.Is(lost, driver.ErrLost) && !errors.Is(lost, driver.ErrUncertain) {
		t.Errorf("the waiter has %v, %v, and hears %v; want that the lease was broken", w.grant, w.err, lost)
	}
	if w.grant != nil {
		_ = w.grant.Release(t.Context())
	}
	release(t, take(t, a, long("deploy")))
}

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

// TestHandedLate: the message that hands a lock over may come when the waiter has found the
// lock by a look, and gives it back. Then nobody declines it: only one of two releases finds
// the lease, and the holder would be told that it had lost it.
func TestHandedLate(t *testing.T) {
	t.Parallel()
	s := openLong(t, blessedServer(t))
	for _, kind := range []string{exclusive, shared, "3"} {
		g := take(t, s, long(kind)).(*grant)
		heldUp(s, releaseScript, func() {
			s.hear(conn.Session{}, fmt.Sprintf("grant %s %s %d 1 1000 run 0 0", g.lease, g.key, g.token))
			s.work.Wait() // what the message has started
		})
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("%s: Release = %v; want nil", kind, err)
		}
		if len(s.grants) != 0 {
			t.Errorf("%s: %d grants are kept after their release", kind, len(s.grants))
		}
	}
}
