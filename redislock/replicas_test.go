// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// startReplicated starts a master with two replicas that have all its data.
func startReplicated(t testing.TB) (master *redis, replicas [2]*redis) {
	t.Helper()
	master = blessedServer(t, "--repl-diskless-sync-delay", "0")
	for i := range replicas {
		replicas[i] = startServer(t)
		follow(t, replicas[i], master)
		t.Cleanup(replicas[i].cont)
	}
	return master, replicas
}

// TestWaitReplicas: a lease is granted, and renewed, when as many replicas have it
// as was asked for.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	master, replicas := startReplicated(t)
	one, two := open(t, master.url()+"?wait_replicas=1", longOptions()), open(t, master.url()+"?wait_replicas=2", longOptions())
	key := func(name string) string { return lockKey(defaultPrefix, name) }
	for i := range 20 {
		name := fmt.Sprint("both/", i)
		g := take(t, two, long(name))
		for _, r := range replicas {
			if r.do("exists", key(name)) != "1" {
				t.Error("a replica lacks a lease that was granted")
			}
		}
		if i > 0 {
			release(t, g)
		}
	}
	held := take(t, two, long("held"))

	replicas[0].stop()
	g := take(t, one, long("one"))
	refused(t, two, "1 of 2")
	release(t, take(t, one, long("deploy"))) // it was given back

	replicas[1].stop()
	refused(t, two, "0 of 2")
	refused(t, one, "0 of 1")
	for _, g := range []*participant.Lease{g, held} {
		if _, err := g.Renew(t.Context(), time.Minute); err == nil || errors.Is(err, driver.ErrLost) || !strings.Contains(err.Error(), "of ") {
			t.Errorf("Renew without replicas = %v; want an error with the numbers", err)
		}
	}
	release(t, g) // needs no replica
	release(t, take(t, openLong(t, master), long("one")))

	// A waiter goes on waiting, even when it is its turn.
	plain := take(t, openLong(t, master), long("turn"))
	w := wait(t, master, one, long("turn"))
	release(t, plain)
	select {
	case <-w.done:
		t.Errorf("Acquire without replicas = %v, %v; want it to wait", w.grant, w.err)
	case <-time.After(time.Second):
	}
	replicas[1].cont()
	next := w.granted(patience)
	if replicas[1].do("exists", key("turn")) != "1" {
		t.Error("the replica lacks the lease that was granted")
	}
	release(t, next)
	refused(t, two, "1 of 2")
	replicas[0].cont()
	await(t, "the lease is not renewed when the replicas are there again", func() bool { _, err := held.Renew(t.Context(), time.Minute); return err == nil })
	release(t, held)
}

func refused(t testing.TB, s *party, numbers string) {
	t.Helper()
	g, err := s.TryAcquire(t.Context(), long("deploy"))
	if g != nil || !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), numbers+" replicas") {
		t.Errorf("TryAcquire = %v, %v; want ErrUnavailable and %q", g, err, numbers)
	}
}

// TestRightToWait: a user that may not run WAIT gets an error that says so.
func TestRightToWait(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	r.do("acl", "setuser", "app", "on", ">pw", "~*", "&*", "+@all", "-wait")
	s := open(t, "redis://app:pw@"+r.Addr+"?wait_replicas=1", longOptions())
	if g, err := s.TryAcquire(t.Context(), long("deploy")); g != nil || !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "+wait") {
		t.Errorf("TryAcquire = %v, %v; want ErrUnavailable and the right that is missing", g, err)
	}
}

// TestWaitTogether: many leases at a time share the waiting, also while connections
// are lost and scripts are forgotten.
func TestWaitTogether(t *testing.T) {
	t.Parallel()
	master, _ := startReplicated(t)
	s := open(t, master.url()+"?wait_replicas=2", longOptions())
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			var g *participant.Lease
			var err error
			if !eventually(patience, func() bool { g, err = s.TryAcquire(t.Context(), long(fmt.Sprint(i))); return err == nil }) {
				t.Errorf("TryAcquire = %v", err)
				return
			}
			releaseAnyhow(t, g)
		})
		switch i {
		case 50:
			master.do("client", "kill", "type", "normal")
		case 100:
			master.do("script", "flush")
		}
	}
	work.Wait()
	waits := commandCalls(master, "wait")
	if waits == 0 || waits > 200 {
		t.Errorf("%d times WAIT for 200 leases", waits)
	}
}

func commandCalls(r *redis, command string) (n int) {
	_, stat, _ := strings.Cut(r.do("info", "commandstats"), "cmdstat_"+command+":calls=")
	fmt.Sscan(strings.SplitN(stat, ",", 2)[0], &n)
	return n
}

// TestSentinelPassword: sentinels may want a user and a password of their own.
func TestSentinelPassword(t *testing.T) {
	t.Parallel()
	master := startServer(t, "--requirepass", "s3cret")
	host, port, _ := net.SplitHostPort(master.Addr)
	sentinel := startSentinel(t, host, port, "sentinel auth-pass mymaster s3cret", "requirepass w4tch",
		"user guard on >w4tcher allchannels allkeys +@all")
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("w4tch\n"), 0o600))
	at := "redis://:s3cret@" + sentinel + "?master_set=mymaster"
	works(t, at+"&sentinel_password=w4tch")
	works(t, at+"&sentinel_username=guard&sentinel_password=w4tcher")
	works(t, at+"&sentinel_password_file="+url.QueryEscape(file))
	for _, wrong := range []string{at, at + "&sentinel_password=wr0ng"} {
		_, err := NewStore(t.Context(), wrong, longOptions())
		fails(t, "Open", err, nil, "sentinel_password")
		if err != nil && (strings.Contains(err.Error(), "wr0ng") || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("the error contains a password: %v", err)
		}
	}
}
