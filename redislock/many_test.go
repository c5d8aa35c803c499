// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/server"
)

// loadMany loads a script that is not bound to a run, and returns its name.
func loadMany(t testing.TB, s *store, script int) (sha string) {
	t.Helper()
	guard, err := os.ReadFile("internal/server/lua/guard.lua")
	if err != nil {
		t.Fatal(err)
	}
	client := s.server.(*server.Server).Client()
	text := "local boot, publish = '', 'PUBLISH'\n" + string(guard) + scripts[script].Text
	if sha, err = client.Do(t.Context(), client.B().ScriptLoad().Script(text).Build()).ToString(); err != nil {
		t.Fatal(err)
	}
	return sha
}

// callMany builds a call of a script for several requests, each a name and a lease.
func callMany(s *store, sha string, common []string, requests [][2]string) rueidis.Completed {
	var keys [5][]string
	args := slices.Clone(common)
	for i, r := range requests {
		for kind, key := range s.keysOf(lockKey(s.prefix, r[0]), r[1]) {
			if kind > 0 || i == 0 {
				keys[kind] = append(keys[kind], key)
			}
		}
		args = append(args, r[1])
	}
	all := slices.Concat(keys[:]...)
	return s.server.(*server.Server).Client().B().Evalsha().Sha1(sha).Numkeys(int64(len(all))).Key(all...).Arg(args...).Build()
}

// runMany returns the code of each answer of such a call, or the error.
func runMany(t *testing.T, s *store, script int, common []string, requests [][2]string) (codes []string) {
	t.Helper()
	call := callMany(s, loadMany(t, s, script), common, requests)
	replies, err := s.server.(*server.Server).Client().Do(t.Context(), call).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range replies {
		reply, err := r.ToArray()
		if err != nil {
			codes = append(codes, err.Error())
			continue
		}
		codes = append(codes, fmt.Sprint(server.Code(reply)))
	}
	return codes
}

// TestAcquireMany: of several locks that are asked for at once each is granted or not
// as if it were alone.
func TestAcquireMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s, other := openLong(t, r), openLong(t, r)
	take(t, other, long("held"))
	r.do("sadd", lockKey(defaultPrefix, "theirs"), "x")
	// This participant is there, and does not wait.
	r.do("zadd", lockKey(defaultPrefix, "queued")+queueSuffix, "1", attemptText("WAITER", other.id, exclusive, "{}"))
	r.do("zadd", lockKey(defaultPrefix, "deserted")+queueSuffix, "1", attemptText("GONE", "NOBODY", exclusive, "{}"))
	r.do("set", lockKey(defaultPrefix, "ended")+endedSuffix+"L6", "")
	common := []string{s.id, exclusive, "{}", "60000", claimMillis, defaultPrefix + "client:", "0", ""}
	if got := runMany(t, s, acquireScript, common, [][2]string{{"twice", "L1"}, {"twice", "L2"}}); strings.Join(got, " ") != "1 0" {
		t.Errorf("the answers to two who ask for a free lock are %v; want 1 0", got)
	}
	got := runMany(t, s, acquireScript, common, [][2]string{
		{"free", "L1"}, {"held", "L2"}, {"theirs", "L3"}, {"queued", "L4"}, {"free", "L5"}, {"ended", "L6"}, {"deserted", "L7"}, {"free too", "L8"},
	})
	if !strings.HasPrefix(got[2], "WRONGTYPE") || !strings.Contains(got[2], "script:") {
		t.Errorf("a lock of another program: %q; want WRONGTYPE, and that a script has failed", got[2])
	}
	got[2] = "WRONGTYPE"
	if want := "1 0 WRONGTYPE 0 0 -3 1 1"; strings.Join(got, " ") != want {
		t.Errorf("the answers are %v; want %s", got, want)
	}
	if holder := r.do("get", lockKey(defaultPrefix, "free")); !strings.HasPrefix(holder, "L1 ") {
		t.Errorf("the lock that was asked for twice is held by %q; want L1", holder)
	}
	for _, name := range []string{"queued", "deserted"} {
		if n := queueLen(r, name); n != 0 {
			t.Errorf("%d are in the queue of %s", n, name)
		}
	}
}

// TestReleaseMany: of several locks that are given back at once each is as if it were
// alone: who waits gets it at once, and nobody loses one who has it.
func TestReleaseMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s, other := openLong(t, r), openLong(t, r)
	var requests [][2]string
	for _, name := range []string{"a", "b", "c"} {
		requests = append(requests, [2]string{name, take(t, s, long(name)).(*grant).lease})
	}
	reader := take(t, s, reading(long("d"))).(*grant)
	requests = append(requests, [2]string{"d", reader.lease})
	waits := wait(t, r, other, long("b"))
	take(t, other, long("e"))
	requests = append(requests, [2]string{"e", "NOT THIS"}, [2]string{"f", "NOBODY"})
	got := runMany(t, s, releaseScript, []string{claimMillis, defaultPrefix + "client:", s.id, exclusive, "", "0", "0"}, requests)
	if want := "1 1 1 1 0 0"; strings.Join(got, " ") != want {
		t.Errorf("the answers are %v; want %s", got, want)
	}
	for _, name := range []string{"a", "c", "d"} {
		if n := r.do("exists", lockKey(defaultPrefix, name)); n != "0" {
			t.Errorf("%s is not free", name)
		}
	}
	if n := queueLen(r, "b"); n != 0 {
		t.Errorf("%d are in the queue of a lock that was given back", n)
	}
	waits.granted(patience)
	if n := r.do("exists", lockKey(defaultPrefix, "e")); n != "1" {
		t.Error("the lock of another lease has gone")
	}
}

// TestManyTogether: the requests of goroutines are fewer calls of scripts than there are
// requests, and each gets its lock.
func TestManyTogether(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	const n = 64
	if !eventually(patience, func() bool {
		before := scriptCalls(r)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				g, err := s.TryAcquire(t.Context(), long(fmt.Sprint(i)))
				if err != nil {
					t.Errorf("TryAcquire = %v", err)
				} else if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
		}
		all.Wait()
		return scriptCalls(r)-before < n || t.Failed()
	}) {
		t.Errorf("%d goroutines never made less than half as many calls as requests", n)
	}
}

// TestCancelledAmongMany: of requests that are under way together, those whose context
// ends return and leave nothing; the others get their locks.
func TestCancelledAmongMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s, other := openLong(t, r), openLong(t, r)
	take(t, s, long("warm"))
	r.stop()
	const n = 40
	ctx, cancel := context.WithCancel(t.Context())
	var gone, rest sync.WaitGroup
	for i := range n {
		if i%2 == 0 {
			gone.Go(func() {
				g, err := s.TryAcquire(ctx, long(fmt.Sprint(i)))
				if !errors.Is(err, context.Canceled) {
					t.Errorf("TryAcquire = %v; want the context's error", err)
				}
				if g != nil {
					rest.Go(func() { releaseAnyhow(t, g) })
				}
			})
			continue
		}
		rest.Go(func() {
			if _, err := s.TryAcquire(t.Context(), long(fmt.Sprint(i))); err != nil {
				t.Errorf("TryAcquire beside others that were cancelled = %v", err)
			}
		})
	}
	cancel()
	gone.Wait()
	r.cont()
	rest.Wait()
	for i := 0; i < n; i += 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := other.Acquire(ctx, long(fmt.Sprint(i))); err != nil {
			t.Errorf("Acquire of what was given up = %v", err)
		}
		cancel()
	}
}

// TestRefusedAmongMany: what the user has no right to is refused, and what others ask
// for at the same time is not.
func TestRefusedAmongMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	r.do("acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:epoch", "~pawl:check:*", "~pawl:{mine*", "&*", "+@all")
	s := open(t, "redis://app:s3cret@"+r.addr, longOptions())
	for range 20 {
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				g, err := s.TryAcquire(t.Context(), long(fmt.Sprint("mine", i)))
				if err != nil {
					t.Errorf("TryAcquire = %v", err)
				} else if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
			all.Go(func() {
				if _, err := s.TryAcquire(t.Context(), long(fmt.Sprint("theirs", i))); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "NOPERM") {
					t.Errorf("TryAcquire of a key without rights = %v; want NOPERM", err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
	}
}

// TestRestartAmongMany: a server that has restarted has none of the scripts: all who ask
// at once learn that, and get their locks.
func TestRestartAmongMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	for round := range 3 {
		if round > 0 {
			r.restart()
			if err := Bless(t.Context(), r.url(), longOptions()); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if _, err := s.Acquire(ctx, long(fmt.Sprint(round, "/", i))); err != nil {
					t.Errorf("Acquire = %v", err)
				}
			})
		}
		all.Wait()
	}
}
