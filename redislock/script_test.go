// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// alone returns the only server of a store.
func alone(s *party) *epoch.Server {
	servers, _ := s.server.Servers(context.Background())
	return servers[0]
}

// loadMany loads a script that is not bound to a run, and returns its name.
func loadMany(t testing.TB, s *party, script int) (sha string) {
	t.Helper()
	client := alone(s).Client
	sha, err := client.Do(t.Context(), client.B().ScriptLoad().Script(epoch.Unbound(scripts[script].Text)).Build()).ToString()
	must(t, err)
	return sha
}

// callMany builds a call of a script for several requests, each a name and a lease.
func callMany(s *party, sha string, common []string, requests [][2]string) rueidis.Completed {
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
	return alone(s).Client.B().Evalsha().Sha1(sha).Numkeys(int64(len(all))).Key(all...).Arg(args...).Build()
}

// runMany returns the code of each answer of such a call, or the error.
func runMany(t *testing.T, s *party, script int, common []string, requests [][2]string) (codes []string) {
	t.Helper()
	call := callMany(s, loadMany(t, s, script), common, requests)
	replies, err := alone(s).Client.Do(t.Context(), call).ToArray()
	must(t, err)
	for _, r := range replies {
		reply, err := r.ToArray()
		if err != nil {
			codes = append(codes, err.Error())
			continue
		}
		codes = append(codes, fmt.Sprint(epoch.Code(reply)))
	}
	return codes
}

// TestAcquireMany: several locks that are requested at once are granted, or not, as if
// each were alone.
func TestAcquireMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s, other := openLong(t, r), openLong(t, r)
	take(t, other, long("held"))
	r.do("sadd", lockKey(defaultPrefix, "theirs"), "x")
	// This participant is connected, and does not wait.
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
	if !strings.HasPrefix(got[2], "WRONGTYPE") || !strings.HasSuffix(got[2], "nothing was written") {
		t.Errorf("a lock of another program: %q; want WRONGTYPE, and that nothing was written", got[2])
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

// TestSpoiltAmongMany: keys of a lock that another program has written do not affect
// the other locks of a call, and a lock is given back although its queue is not a
// queue.
func TestSpoiltAmongMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	r.do("set", s.server.FloorKey(lockKey(defaultPrefix, "spoilt")), "x")
	requests := [][2]string{{"a", "L1"}, {"spoilt", "L2"}, {"b", "L3"}}
	got := runMany(t, s, acquireScript, []string{s.id, exclusive, "{}", "60000", claimMillis, defaultPrefix + "client:", "0", ""}, requests)
	if got[0] != "1" || !strings.HasSuffix(got[1], "nothing was written") || got[2] != "1" {
		t.Errorf("the answers are %v; want 1, an error for the second, 1", got)
	}
	r.do("set", lockKey(defaultPrefix, "a")+queueSuffix, "x")
	got = runMany(t, s, releaseScript, []string{claimMillis, defaultPrefix + "client:", s.id, exclusive, "", "0", "0"}, requests)
	if want := "1 0 1"; strings.Join(got, " ") != want {
		t.Errorf("the answers to releases are %v; want %s", got, want)
	}
}

// TestReleaseMany: several locks that are given back at once behave as if each were
// alone: a waiter gets its lock at once, and no other holder loses one.
func TestReleaseMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s, other := openLong(t, r), openLong(t, r)
	var requests [][2]string
	for _, name := range []string{"a", "b", "c"} {
		requests = append(requests, [2]string{name, take(t, s, long(name)).ID()})
	}
	reader := take(t, s, reading(long("d")))
	requests = append(requests, [2]string{"d", reader.ID()})
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

// TestWaitMany: each waiter that joins a queue in a call has its own place.
func TestWaitMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s, other := openLong(t, r), openLong(t, r)
	take(t, other, long("a"))
	take(t, other, long("b"))
	const ahead = "9000000000000000" // as the clock was once
	r.do("zadd", lockKey(defaultPrefix, "a")+queueSuffix, ahead, attemptText("FIRST", other.id, exclusive, "{}"))
	got := runMany(t, s, acquireScript, []string{s.id, exclusive, "{}", "60000", claimMillis, defaultPrefix + "client:", "1", ""},
		[][2]string{{"a", "L1"}, {"b", "L2"}, {"a", "L3"}})
	if want := "0 0 0"; strings.Join(got, " ") != want {
		t.Errorf("the answers are %v; want %s", got, want)
	}
	place := func(name, lease string) float64 {
		f, err := strconv.ParseFloat(r.do("zscore", lockKey(defaultPrefix, name)+queueSuffix, attemptText(lease, s.id, exclusive, "{}")), 64)
		if err != nil {
			t.Errorf("%s has no place: %v", lease, err)
		}
		return f
	}
	if a, b, c := place("a", "L1"), place("b", "L2"), place("a", "L3"); !(b < 9e15 && 9e15 < a && a < c) {
		t.Errorf("the places are %.0f, %.0f, %.0f; want the first and the third behind %s, in this order, and the second before", a, b, c, ahead)
	}
}
