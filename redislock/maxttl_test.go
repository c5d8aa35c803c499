// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

func withMaxTTL(ttl time.Duration) *Options { return &Options{MaxTTL: ttl} }

func lasting(name string, ttl time.Duration) *driver.Request {
	req := request(name)
	req.TTL = ttl
	return req
}

// disagrees checks that err is ErrDisagree and says these things.
func disagrees(t testing.TB, what string, err error, want ...string) {
	t.Helper()
	fails(t, what, err, driver.ErrDisagree, want...)
}

func describe(t testing.TB, s *party) *driver.StoreInfo {
	t.Helper()
	info, err := s.Describe(t.Context())
	must(t, err)
	return info
}

// TestMaxTTLIsAgreed: the first client to be granted something sets MaxTTL, a longer TTL is
// refused, and so is a client that knows of less. One without a MaxTTL may have 30 s.
func TestMaxTTLIsAgreed(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	first := open(t, r.url(), nil)
	_, err := first.TryAcquire(t.Context(), lasting("job", 2*time.Minute))
	disagrees(t, "TryAcquire with a TTL that nobody knows of", err, "TTL 2m ", "30s", "max_ttl=2m ")

	bless(t, r.url(), withMaxTTL(5*time.Second))
	a := open(t, r.url(), withMaxTTL(5*time.Second))
	take(t, a, lasting("a", 5*time.Second))
	take(t, open(t, r.url(), nil), lasting("less than 30 s is no danger", 5*time.Second))
	b := open(t, r.url(), withMaxTTL(time.Second))
	_, err = b.TryAcquire(t.Context(), lasting("b", time.Second))
	disagrees(t, "TryAcquire of a client with a MaxTTL of 1s", err, "1s", "5s", "max_ttl=5s", "set by")
	disagrees(t, "its Acquire", errorOf(b.Acquire(t.Context(), lasting("b", time.Second))))

	long := open(t, r.url(), withMaxTTL(time.Hour))
	for what, try := range map[string]func() error{
		"TryAcquire": func() error { _, err := long.TryAcquire(t.Context(), lasting("c", 6*time.Second)); return err },
		"Acquire":    func() error { _, err := long.Acquire(t.Context(), lasting("c", 6*time.Second)); return err },
		"shared": func() error {
			req := reading(lasting("c", 6*time.Second))
			_, err := long.TryAcquire(t.Context(), req)
			return err
		},
		"Renew": func() error {
			_, err := take(t, long, lasting("renewed", time.Second)).Renew(t.Context(), 6*time.Second)
			return err
		},
	} {
		disagrees(t, what+" with a TTL of 6s", try(), "6s", "5s", "pawl max-ttl")
	}
	take(t, long, lasting("c", 5*time.Second))
	if info := describe(t, long); info.MaxTTL != 5*time.Second || info.SetBy == nil {
		t.Errorf("Describe = %+v; want a MaxTTL of 5s, and who has set it", info)
	}
}

// TestReadingWritesNothing: a client that only reads changes nothing, whatever its
// MaxTTL.
func TestReadingWritesNothing(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	readAll := func() {
		s := open(t, r.url()+"?max_ttl=24h", nil)
		if _, err := s.List(t.Context(), ""); err != nil {
			t.Error(err)
		}
		if _, err := s.Inspect(t.Context(), "job"); err != nil {
			t.Error(err)
		}
		describe(t, s)
		if err := s.Break(t.Context(), "job", "nobody's", nil, ""); !errors.Is(err, driver.ErrReleased) {
			t.Errorf("Break of nothing = %v", err)
		}
	}
	readAll()
	if keys := r.do("keys", "*"); keys != "" {
		t.Errorf("after reading a new server has the keys %q; want none", keys)
	}
	const most = 20 * time.Second
	bless(t, r.url(), withMaxTTL(most))
	before := r.do("get", "pawl:epoch")
	readAll()
	if after := r.do("get", "pawl:epoch"); after != before {
		t.Errorf("reading has made %q of the record %q", after, before)
	}
	r.restart()
	readAll()
	s := open(t, r.url(), withMaxTTL(most))
	fails(t, "TryAcquire after the restart", errorOf(s.TryAcquire(t.Context(), lasting("job", time.Second))), driver.ErrUnavailable)
	if left := describe(t, s).Closed; left > most {
		t.Errorf("the server is closed for %v; want 20s at most: nobody has used more", left)
	}
}

// TestRestartWithData: a server that comes back with its data is closed for the MaxTTL
// that was agreed on, whatever the first clients ask for, and counts from its start.
func TestRestartWithData(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	bless(t, r.url(), withMaxTTL(3*time.Second))
	take(t, open(t, r.url(), withMaxTTL(3*time.Second)), lasting("job", 3*time.Second)).Release(t.Context())
	r.restart()
	long := open(t, r.url(), withMaxTTL(24*time.Hour))
	_, err := long.TryAcquire(t.Context(), lasting("job", time.Second))
	if info := describe(t, long); !errors.Is(err, driver.ErrUnavailable) || info.Closed > 3*time.Second || info.MaxTTL != 3*time.Second || info.Why == "" {
		t.Errorf("after the restart TryAcquire = %v, Describe = %+v; want it closed for 3s at most", err, info)
	}
	r.restart()
	grownUp(t, 3*time.Second, r)
	take(t, open(t, r.url(), withMaxTTL(3*time.Second)), lasting("job", time.Second))
}

// TestForgottenMaxTTL: after a loss of data the first client knows a shorter MaxTTL. A
// client that was there before corrects it in time, even if it does nothing, or has a
// longer one of its own.
func TestForgottenMaxTTL(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"idle holder", "learnt true", "learnt false"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			const long = 4 * time.Second
			var r *redis
			var a, b *party
			var old *participant.Lease
			var err error
			for tries := 0; ; tries++ {
				r = startServer(t)
				bless(t, r.url(), withMaxTTL(long))
				a = open(t, r.url(), withMaxTTL(time.Minute))
				old = take(t, a, lasting("job", long))
				if who == "learnt false" {
					a.Close() // it would be told
				}
				r.do("flushall")
				b = open(t, r.url(), withMaxTTL(2*time.Second))
				_, err = b.TryAcquire(t.Context(), lasting("job", time.Second))
				if who == "learnt false" || !errors.Is(err, driver.ErrDisagree) {
					break
				}
				if who == "learnt true" || tries == 20 {
					return // it was corrected before it could try
				}
			}
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Fatalf("TryAcquire after the loss = %v; want it to wait", err)
			}
			switch who {
			case "idle holder":
				told := make(chan error, 1)
				old.OnLost(func(err error) { told <- err })
				await(t, "the holder does not notice that its lease is forgotten", func() bool { return len(told) > 0 })
			case "learnt true":
				a.TryAcquire(t.Context(), lasting("else", long))
			case "learnt false":
				open(t, r.url(), withMaxTTL(long)).TryAcquire(t.Context(), lasting("else", long))
			}
			g, err := b.Acquire(t.Context(), lasting("job", time.Second))
			must(t, err)
			notEarly(t, old, long, g.Since())
		})
	}
}

// TestSetMaxTTL: a change is there at once for clients that are running. After a shorter one
// leases with the longer one are waited for until they have ended.
func TestSetMaxTTL(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	bless(t, r.url(), withMaxTTL(time.Second))
	var log servers.Output
	opts := withMaxTTL(time.Second)
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	running := openClient(t, r.url(), opts)
	use := func() {
		if err := running.Do(t.Context(), "job", func(context.Context, *pawl.Lease) error { return nil }); err != nil {
			t.Fatalf("the running client: %v", err)
		}
	}
	use()
	must(t, SetMaxTTL(t.Context(), r.url(), 6*time.Second, nil))
	use()
	if !eventually(patience, func() bool { return strings.Contains(log.String(), "raised to 6s") }) {
		t.Errorf("the log says %q; want that MaxTTL was raised", log.String())
	}
	_, err := open(t, r.url(), withMaxTTL(time.Second)).TryAcquire(t.Context(), lasting("b", time.Second))
	disagrees(t, "TryAcquire of a client that starts with the old MaxTTL", err, "6s")
	a := open(t, r.url(), withMaxTTL(6*time.Second))
	old := take(t, a, lasting("long", 6*time.Second))

	must(t, SetMaxTTL(t.Context(), r.url(), time.Second, nil))
	if info := describe(t, a); info.Closed != 0 {
		t.Errorf("after the change Describe = %+v; want it open", info)
	}
	disagrees(t, "Renew with the old TTL", errorOf(old.Renew(t.Context(), 6*time.Second)))
	disagrees(t, "TryAcquire with a TTL of 2s", errorOf(a.TryAcquire(t.Context(), lasting("c", 2*time.Second))))
	take(t, a, lasting("c", time.Second))
	r.do("del", "pawl:{long}") // as if its last second was lost
	r.restart()
	got, err := open(t, r.url(), withMaxTTL(time.Second)).Acquire(t.Context(), lasting("long", time.Second))
	must(t, err)
	notEarly(t, old, 6*time.Second, got.Since())
}

// TestOwnMaxTTLAfterLoss: after a loss of data, a client that has seen the store open
// starts a quarantine of the MaxTTL that was agreed on, not of its own.
func TestOwnMaxTTLAfterLoss(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	first := open(t, r.url(), withMaxTTL(2*time.Second)) // not set by Bless: of two changes the later one is right anyway
	if _, err := first.Acquire(t.Context(), lasting("job", time.Second)); err != nil {
		t.Fatal(err)
	}
	a := open(t, r.url(), withMaxTTL(24*time.Hour))
	take(t, a, lasting("else", time.Second))
	first.Close()
	r.do("flushall")
	a.TryAcquire(t.Context(), lasting("job", time.Second))
	if info := describe(t, a); info.MaxTTL != 2*time.Second || info.Closed > 2*time.Second {
		t.Errorf("after the loss Describe = %+v; want it closed for 2s", info)
	}
}

// TestForgottenEnds: MaxTTL was lowered, and then the data was lost. A client that
// knows the change also knows for how long longer leases go on.
func TestForgottenEnds(t *testing.T) {
	t.Parallel()
	const long, short = 5 * time.Second, time.Second
	r := startServer(t)
	bless(t, r.url(), withMaxTTL(long))
	a := open(t, r.url(), withMaxTTL(long))
	old := take(t, a, lasting("job", long))
	must(t, SetMaxTTL(t.Context(), r.url(), short, nil))
	b := open(t, r.url(), withMaxTTL(short))
	take(t, b, lasting("else", short))
	a.Close()
	r.do("flushall")
	got, err := b.Acquire(t.Context(), lasting("job", short))
	must(t, err)
	notEarly(t, old, long, got.Since())
	if late := got.Since().Sub(old.Since()); late > 2*long {
		t.Errorf("the name was granted after %v; want it soon after the end of the forgotten lease", late)
	}
}

// TestClusterForgottenMaxTTL: as TestForgottenMaxTTL, in a cluster, of an idle holder.
func TestClusterForgottenMaxTTL(t *testing.T) {
	t.Parallel()
	const long = 4 * time.Second
	c := startCluster(t, 0)
	bless(t, c.url(), withMaxTTL(long))
	name, other := c.nameOn(1, "job"), c.nameOn(1, "other")
	a := open(t, c.url(), withMaxTTL(long))
	old := take(t, a, lasting(name, long))
	for _, m := range c.masters { // one that has not lost its data tells MaxTTL
		m.do("flushall")
	}
	b := open(t, c.url(), withMaxTTL(time.Second))
	_, err := b.TryAcquire(t.Context(), lasting(other, time.Second))
	if errors.Is(err, driver.ErrDisagree) {
		return // it was corrected before it could try
	}
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("TryAcquire after the loss = %v; want it to wait", err)
	}
	got, err := b.Acquire(t.Context(), lasting(name, time.Second))
	if errors.Is(err, driver.ErrDisagree) {
		return // it was corrected while it waited
	}
	must(t, err)
	notEarly(t, old, long, got.Since())
}

// TestLayouts: a store that another version has used is refused, by clients that are there and by new
// ones, and left as it is.
func TestLayouts(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	bless(t, r.url(), withMaxTTL(7*time.Second))
	a := open(t, r.url(), withMaxTTL(7*time.Second))
	g := take(t, a, lasting("job", 7*time.Second))
	info := epoch.ParseInfo(r.do("info", "all"))
	now := time.Now().UnixMicro()
	for _, record := range []string{
		"2 whatever comes",
		fmt.Sprintf("2 %s %d %d 7000 0 %d %s 0 - {} %d", info["run_id"], now-60_000_000, now, now, info["master_replid"], now),
		fmt.Sprintf("%s %d 7000 %d %s %d", info["run_id"], now-60_000_000, 0, info["master_replid"], now),
	} {
		r.do("set", "pawl:epoch", record)
		refused := func(what string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), "another version of pawl has used this store") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s in a store with the record %q = %v; want it refused in one line", what, record, err)
			}
		}
		_, err := a.TryAcquire(t.Context(), lasting("next", time.Second))
		refused("TryAcquire", err)
		_, err = g.Renew(t.Context(), 7*time.Second)
		refused("Renew", err)
		c, err := Open(t.Context(), r.url(), withMaxTTL(7*time.Second))
		refused("Open", err)
		if err == nil {
			c.Close()
		}
		if now := r.do("get", "pawl:epoch"); now != record {
			t.Errorf("the record is now %q", now)
		}
	}
}

// TestClusterMaxTTL: clients agree on one MaxTTL in all slots, whoever came to which of them first.
func TestClusterMaxTTL(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	one, two, three := c.nameOn(0, "one"), c.nameOn(1, "two"), c.nameOn(2, "three")
	a := open(t, c.url(), withMaxTTL(30*time.Second))
	if _, err := a.TryAcquire(t.Context(), lasting(one, time.Second)); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("the first TryAcquire = %v; want it to wait", err)
	}
	// As if two clients had come to different slots in the same instant.
	await(t, "the first client does not begin the epochs of the other nodes", func() bool { return c.masters[1].do("--scan", "--pattern", "pawl:epoch:*") != "" })
	key := a.server.EpochKey(lockKey(a.prefix, two))
	await(t, "the first client does not begin the epoch of a slot", func() bool { return c.masters[1].do("get", key) != "" })
	f := strings.Fields(c.masters[1].do("get", key))
	f[5] = "1000"
	c.masters[1].do("set", key, strings.Join(f, " "))
	b := open(t, c.url(), withMaxTTL(time.Second))
	servers, err := b.server.Servers(t.Context())
	must(t, err)
	for _, s := range servers { // it has come before, and so learns of no other slot in the background
		is, err := s.Bound(t.Context(), nil)
		must(t, err)
		is.FirstVisit()
	}
	for _, name := range []string{two, three, two} {
		fails(t, "TryAcquire of the other client", errorOf(b.TryAcquire(t.Context(), lasting(name, time.Second))), driver.ErrUnavailable)
	}
	if f := strings.Fields(c.masters[1].do("get", key)); b.limit.Longest() != 30*time.Second || f[5] != "30000" {
		t.Errorf("the other client knows of %v, and the slot that it met first of %s ms; want 30s", b.limit.Longest(), f[5])
	}
	_, err = open(t, c.url(), withMaxTTL(time.Second)).TryAcquire(t.Context(), lasting(two, time.Second))
	disagrees(t, "TryAcquire of another with a MaxTTL of 1s", err, "30s")
	bless(t, c.url(), withMaxTTL(30*time.Second))
	for _, name := range []string{one, two, three} {
		take(t, a, lasting(name, 30*time.Second))
	}
	must(t, SetMaxTTL(t.Context(), c.url(), 40*time.Second, nil))
	long := open(t, c.url(), withMaxTTL(40*time.Second))
	for _, name := range []string{one, two, three} {
		take(t, long, lasting(name+"6", 40*time.Second)).Release(t.Context())
		take(t, a, lasting(name+"7", 10*time.Second))
	}
	if info := describe(t, a); info.MaxTTL != 40*time.Second || info.Closed != 0 {
		t.Errorf("Describe = %+v", info)
	}
}

// TestHandOffAfterMaxTTL: the release script of a client that has not heard of a new
// MaxTTL still hands the lock over. Otherwise it would be free until the waiter looks.
func TestHandOffAfterMaxTTL(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{2 * time.Minute, 30 * time.Second} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			r := blessedServer(t)
			a, b := openLong(t, r), openLong(t, r)
			g := take(t, a, lasting("job", 10*time.Second))
			req := lasting("job", 10*time.Second)
			wait(t, r, b, req)
			must(t, SetMaxTTL(t.Context(), r.url(), limit, nil))
			release(t, g)
			if value := r.do("get", "pawl:{job}"); !strings.HasPrefix(value, req.Lease) {
				t.Errorf("after the release the lock is %q; want it to be the waiter's", value)
			}
		})
	}
}
