// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// startRedlock starts three servers and returns the store's URL and the processes.
func startRedlock(t *testing.T, ttl time.Duration) (store string, pids []int) {
	t.Helper()
	var addrs []string
	for range 3 {
		s := servers.StartRedis(t, "--requirepass", "s3cret")
		addrs, pids = append(addrs, s.Addr), append(pids, s.Pid())
	}
	store = "redlock://:s3cret@" + strings.Join(addrs, ",") + "?node_timeout=1s&max_ttl=" + ttl.String()
	return store, pids
}

// blessRedlock makes servers that have just started grant at once.
func blessNodes(t *testing.T, store string) {
	t.Helper()
	if err := redlock.Bless(context.Background(), store, nil); err != nil {
		t.Fatal(err)
	}
}

// TestRedlockIsTold: of nodes of which one is away whoever looks sees who waits, and is told which node it
// is; nobody is told a place in a queue that has no order.
func TestRedlockIsTold(t *testing.T) {
	w := newWorld(t)
	store, pids := startRedlock(t, 30*time.Second)
	blessNodes(t, store)
	holder := w.holds("-s", store, "deploy")
	if err := syscall.Kill(pids[2], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waiter := w.pawl("run", "-s", store, "--who", "carol", "deploy", "true")
	w.until("it waits", func() bool { return strings.Contains(waiter.stderr(), "waiting for") })
	show := w.pawl("show", "-s", store, "deploy")
	show.end(0)
	if got := show.stdout(); !strings.Contains(got, "\nwaiting 1  carol (pid ") || strings.Contains(got, ", for -") {
		t.Errorf("show says %q; want who waits", got)
	}
	for _, p := range []*proc{waiter, show} {
		if got := p.stderr(); strings.Count(got, "pawl: warning: redlock: 1 of 3 nodes have not answered, and 2 have to: ") != 1 || strings.Contains(got, "you are next") {
			t.Errorf("stderr is %q; want one warning, and no place", got)
		}
	}
	w.free(holder)
	waiter.end(0)
}

// TestRedlock: on three Redis servers the commands do what they do on files.
func TestRedlock(t *testing.T) {
	store, _ := startRedlock(t, 10*time.Second)
	blessNodes(t, store)
	newWorld(t).serves(store, "redlock://", "deploy", "10s")
}

// TestRedlockServersDie: the command outlives a minority of the servers, and ends
// before its lease does when a majority is gone.
func TestRedlockServersDie(t *testing.T) {
	w := newWorld(t)
	const ttl = 6 * time.Second
	store, servers := startRedlock(t, ttl)
	blessNodes(t, store)
	p := w.pawl("run", "-s", store, "deploy", "--ttl", ttl.String(), "--grace", "2s", "--", "sh", "-c",
		`trap 'date +%s%N >term; exit' TERM; touch in; while :; do sleep 0.02; done`)
	w.appears("in")
	kill := func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
	kill(servers[0])
	time.Sleep(ttl + ttl/2)
	if w.exists("term") {
		t.Fatalf("the command was ended though two of three servers live: %s", p.stderr())
	}
	kill(servers[1])
	end := time.Now().Add(ttl) // no renewal can have succeeded after this
	p.end(exit.Lost)
	ns, err := strconv.ParseInt(strings.TrimSpace(w.read("term")), 10, 64)
	if err != nil {
		t.Fatalf("TERM was not told: %v; %s", err, p.stderr())
	}
	if told := time.Unix(0, ns); told.After(end) {
		t.Errorf("TERM came %v after the end of the lease", told.Sub(end))
	}
	if got := p.stderr(); !strings.Contains(got, "lost") || strings.Contains(got, "s3cret") {
		t.Errorf("stderr is %q", got)
	}
}

// TestNoRedlock: what cannot be is told in one line, without the password.
func TestNoRedlock(t *testing.T) {
	newWorld(t).refuses([]refusal{
		{"redlock://:s3cret@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "3 of 3 nodes have not answered", exit.Unavailable},
		{"redlock://:s3cret@127.0.0.1:1,127.0.0.1:2", "an odd number", exit.Config},
		{"redlock://:s3cret@h1,h2,h3?nonsense=1", "nonsense", exit.Config},
		{"redlock://:s3cret/@h1,h2,h3", "cannot be parsed", exit.Config},
	}, "run deploy true")
}
