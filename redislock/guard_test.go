// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/participant"
)

const testMaxTTL = 2 * time.Second

func testOptions() *Options { return optionsOf(testMaxTTL) }

func request(name string) *driver.Request {
	return &driver.Request{Name: name, Lease: rand.Text(), TTL: testMaxTTL, Holder: &driver.Holder{Who: "test"}}
}

func open(t testing.TB, url string, opts *Options) *party {
	t.Helper()
	d, err := NewStore(context.Background(), url, patient(opts))
	must(t, err)
	p := asParty(d)
	t.Cleanup(func() { p.Close() })
	return p
}

// slowConnect is for wires that are cut off: each request ends, after this at the latest.
const slowConnect = 15 * time.Second

// patient returns options that connect to a server on a slow machine, too.
func patient(opts *Options) *Options {
	opts = storekit.OrDefault(opts)
	if opts.ConnectTimeout == 0 {
		opts.ConnectTimeout = patience
	}
	return opts
}

// bless ends the quarantine of a server or a cluster.
func bless(t testing.TB, url string, opts *Options) {
	t.Helper()
	must(t, Bless(context.Background(), url, patient(opts)))
}

// forgets are the ways in which a server forgets its leases while it goes on, or
// comes back at once.
var forgets = map[string]func(*redis){
	"kill -9 and restart empty": func(s *redis) { s.restart() },
	"FLUSHALL":                  func(s *redis) { s.do("flushall") },
	"FLUSHDB":                   func(s *redis) { s.do("flushdb") },
	"SWAPDB":                    func(s *redis) { s.do("swapdb", "0", "1") },
	"FLUSHALL twice":            func(s *redis) { s.do("flushall"); time.Sleep(testMaxTTL / 4); s.do("flushall") },
	"FLUSHALL, then restart":    func(s *redis) { s.do("flushall"); s.restart() },
	"FLUSHALL and RESETSTAT":    func(s *redis) { s.do("flushall"); s.do("config", "resetstat") },
}

// TestForgottenLease: no request of any kind gets the name before the lease that the
// server has forgotten has ended.
func TestForgottenLease(t *testing.T) {
	t.Parallel()
	for what, forget := range forgets {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			bless(t, s.url(), testOptions())
			a, b := open(t, s.url(), testOptions()), open(t, s.url(), testOptions())
			old := take(t, a, request("deploy"))
			ctx, cancel := context.WithTimeout(t.Context(), 2*testMaxTTL+3*patience)
			defer cancel()
			var waiters sync.WaitGroup
			got := make(chan driver.Instant, 3)
			acquire := func(s *party, name string) {
				waiters.Go(func() {
					g, err := acquireAnyhow(ctx, s, name)
					if err != nil {
						t.Errorf("Acquire = %v", err)
						return
					}
					got <- driver.Now()
					g.Release(ctx)
				})
			}
			acquire(b, "deploy") // waits while it happens
			time.Sleep(100 * time.Millisecond)
			forget(s)
			acquire(b, "deploy")
			acquire(open(t, s.url(), testOptions()), "deploy") // has never seen the server before
			waiters.Wait()
			close(got) // a waiter that failed has sent nothing
			for at := range got {
				notEarly(t, old, testMaxTTL, at)
			}
			fails(t, "Renew of the forgotten lease", errorOf(old.Renew(t.Context(), testMaxTTL)), driver.ErrLost)
		})
	}
}

// acquireAnyhow asks again, as clients do: on a busy machine a restart takes longer than the
// TTL, after which a waiter is told of the silence, or comes between a request and its answer.
func acquireAnyhow(ctx context.Context, s *party, name string) (*participant.Lease, error) {
	for {
		g, err := s.Acquire(ctx, request(name))
		if err == nil || ctx.Err() != nil || !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
			return g, err
		}
		if g != nil {
			_ = g.Release(ctx)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestUnguarded is the control: without the protection there are two holders.
func TestUnguarded(t *testing.T) {
	t.Parallel()
	for what, forget := range map[string]func(*redis){"restart": (*redis).restart, "FLUSHALL": forgets["FLUSHALL"]} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, "--rename-command", "INFO", "")
			opts := longOptions() // there is no quarantine
			_, err := NewStore(context.Background(), s.url(), opts)
			fails(t, "NewStore", err, nil, "allow_unguarded")
			opts.AllowUnguarded = true
			a, b := open(t, s.url(), opts), open(t, s.url(), opts)
			old := take(t, a, long("deploy"))
			forget(s)
			await(t, "the name is not granted", func() bool {
				_, err := b.TryAcquire(t.Context(), long("deploy"))
				return err == nil
			})
			if driver.Now() >= old.Since().Add(long("").TTL-driver.Drift(long("").TTL)) {
				t.Error("the first lease was over before the second began")
			}
		})
	}
}

// TestUnguardedUser: a user who may not ask for INFO can have no guard.
func TestUnguardedUser(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	r.do("acl", "setuser", "blind", "on", ">s3cret", "~*", "&*", "+@all", "-info")
	opts := testOptions()
	opts.Username, opts.Password = "blind", "s3cret"
	fails(t, "NewStore", errorOf(NewStore(t.Context(), r.url(), opts)), nil, "+info", "allow_unguarded")
	opts.AllowUnguarded = true
	take(t, open(t, r.url(), opts), request("deploy"))
}

var eventually = servers.Eventually

// await waits until f returns true.
func await(t testing.TB, late string, f func() bool) {
	t.Helper()
	if !eventually(3*patience, f) {
		t.Fatal(late)
	}
}

// notEarly checks that a name was not granted, at an instant, while a lease with a TTL was trusted that the server has
// forgotten, or does not know.
func notEarly(t testing.TB, old *participant.Lease, ttl time.Duration, at driver.Instant) {
	t.Helper()
	if early := old.Since().Add(ttl - driver.Drift(ttl)).Sub(at); early > 0 {
		t.Errorf("the name was granted %v before the deadline of the forgotten lease", early)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails checks that what was tried has failed with an error that is want, unless that is nil, and that says these things.
func fails(t testing.TB, tried string, err, want error, says ...string) {
	t.Helper()
	names := map[error]string{nil: "an error", driver.ErrUnavailable: "ErrUnavailable", driver.ErrHeld: "ErrHeld", driver.ErrLost: "ErrLost", driver.ErrDisagree: "ErrDisagree"}
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s = %v; want %s", tried, err, names[want])
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s = %v; want it to say %q", tried, err, s)
		}
	}
}

// succeeds checks that what was tried has not failed.
func succeeds(t testing.TB, tried string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s = %v; want nil", tried, err)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// TestRenewalsGoOnInQuarantine restarts a server that keeps its data.
func TestRenewalsGoOnInQuarantine(t *testing.T) {
	t.Parallel()
	const ttl = patience // it must not end before the server is back
	opts := optionsOf(ttl)
	s := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	bless(t, s.url(), opts)
	a := open(t, s.url(), opts)
	g, other := take(t, a, lasting("deploy", ttl)), take(t, a, lasting("other", ttl))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() {
		_, err := a.Acquire(ctx, lasting("other", ttl))
		waiting <- err
	}()
	time.Sleep(50 * time.Millisecond)
	s.restart()
	await(t, "a lease that the server still knows is not renewed", func() bool { _, err := g.Renew(t.Context(), ttl); return err == nil })
	fails(t, "TryAcquire after the restart", errorOf(a.TryAcquire(t.Context(), lasting("new", ttl))), driver.ErrUnavailable)
	// A lock that is released now may have been released before, and granted to a
	// client that the server no longer knows: it must not be handed on yet.
	await(t, "the waiter does not come back", func() bool { return listens(a) && queueLen(s, "other") == 1 })
	succeeds(t, "Release after the restart", other.Release(t.Context()))
	if s.do("exists", lockKey(defaultPrefix, "other")) != "0" {
		t.Error("a lock that was released after the restart is handed over")
	}
	time.Sleep(100 * time.Millisecond)
	select {
	case err := <-waiting:
		t.Fatalf("the waiter of a lease released after the restart returns %v; want it to wait", err)
	default:
	}
	cancel()
	<-waiting
}

// TestNoNeedlessWait: a server that has been up for long is used at once, if it
// can have forgotten nothing.
func TestNoNeedlessWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(*redis)
		wait bool
	}{
		{"quiet", func(*redis) {}, false},
		{"in use by others", func(r *redis) { r.do("set", "x", "1"); r.do("info", "commandstats") }, false},
		{"erased", func(r *redis) { r.do("flushall") }, true},
		{"database erased", func(r *redis) { r.do("-n", "0", "flushdb", "async") }, true},
		{"databases swapped", func(r *redis) { r.do("swapdb", "0", "1") }, true},
		{"counters erased", func(r *redis) { r.do("config", "resetstat") }, true},
		{"was a replica", func(r *redis) { r.do("replicaof", "127.0.0.1", "1"); r.do("replicaof", "no", "one") }, true},
		{"keys evicted", func(r *redis) {
			r.do("config", "set", "maxmemory-policy", "allkeys-random")
			r.do("set", "x", "1")
			r.do("config", "set", "maxmemory", "1")
			r.do("config", "set", "maxmemory", "0")
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := startServer(t)
			c.do(r)
			grownUp(t, testMaxTTL, r)
			if c.wait {
				closed(t, r)
				return
			}
			if _, err := open(t, r.url(), testOptions()).TryAcquire(t.Context(), request("deploy")); err != nil {
				t.Errorf("TryAcquire = %v; want a grant", err)
			}
		})
	}
}

// closed checks that a server grants nothing to its first client for MaxTTL.
func closed(t *testing.T, r *redis) {
	t.Helper()
	began := driver.Now()
	_, err := open(t, r.url(), testOptions()).TryAcquire(t.Context(), request("deploy"))
	if late := err == nil && driver.Now().Sub(began) >= testMaxTTL; !late && !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("TryAcquire = %v; want ErrUnavailable", err)
	}
}

// TestLongestTTL: on a server that nobody has used before, and that may have forgotten leases, the
// longest MaxTTL of those that come first counts.
func TestLongestTTL(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	short, long := testOptions(), testOptions()
	short.MaxTTL, long.MaxTTL = 15*time.Second, time.Hour
	s := open(t, r.url(), short)
	s.TryAcquire(t.Context(), request("deploy"))
	open(t, r.url(), long).TryAcquire(t.Context(), request("deploy"))
	anHour := func(err error) bool {
		return err != nil && (strings.Contains(err.Error(), "another 1h") || strings.Contains(err.Error(), "another 59m5"))
	}
	if _, err := s.TryAcquire(t.Context(), request("deploy")); !anHour(err) {
		t.Errorf("TryAcquire = %v; want it to wait for an hour", err)
	}
	// Also after a restart, although the client with the longer TTL makes no request.
	r.restart()
	if !eventually(patience, func() bool {
		_, err := s.TryAcquire(t.Context(), request("deploy"))
		return anHour(err)
	}) {
		_, err := s.TryAcquire(t.Context(), request("deploy"))
		t.Errorf("after a restart TryAcquire = %v; want it to wait for the longer TTL", err)
	}
	bless(t, r.url(), testOptions())
	take(t, s, request("deploy"))
	fails(t, "TryAcquire with a longer TTL", errorOf(s.TryAcquire(t.Context(), lasting("longer", time.Minute))), nil, "MaxTTL")
}

// TestScriptFlush: a server that has only lost its scripts has no quarantine.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	g := take(t, s, long("deploy"))
	for range 3 {
		r.do("script", "flush")
		renews(t, g)
		r.do("script", "flush")
		take(t, s, long(rand.Text()))
	}
}
