// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// group is a master with two replicas and three sentinels.
type group struct {
	master   *redis
	replicas [2]*redis
	url      string
}

func startGroup(t *testing.T) *group {
	t.Helper()
	g := &group{master: startServer(t, "--repl-diskless-sync-delay", "0")}
	host, port, _ := net.SplitHostPort(g.master.Addr)
	for i := range g.replicas {
		g.replicas[i] = startServer(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	}
	var sentinels []string
	for range 3 {
		sentinels = append(sentinels, startSentinel(t, host, port))
	}
	g.url = "redis://" + sentinels[0] + "?" + url.Values{"addr": sentinels[1:], "master_set": {"mymaster"}}.Encode()
	ready := func() bool {
		for _, addr := range sentinels {
			s := &redis{Redis: servers.NewRedis(""), t: t}
			s.Addr = addr
			if out := s.do("info", "sentinel"); !strings.Contains(out, "slaves=2,sentinels=3") {
				return false
			}
		}
		return strings.Count(g.master.do("info", "replication"), "state=online") == 2
	}
	await(t, "the sentinels do not find each other", ready)
	return g
}

// startSentinel starts a sentinel for a master, with more lines in its file.
func startSentinel(t *testing.T, host, port string, more ...string) string {
	t.Helper()
	s := servers.NewSentinel(t.TempDir(), append([]string{fmt.Sprintf("sentinel monitor mymaster %s %s 2", host, port),
		"sentinel down-after-milliseconds mymaster 500", "sentinel failover-timeout mymaster 3000"}, more...)...)
	must(t, s.Begin())
	t.Cleanup(s.End)
	return s.Addr
}

// TestFailover: a replica that becomes the master lacks a lease that was granted
// just before. Nobody gets it before it has ended; the lease that the replica
// knows lives on; and waiters outlive it all.
func TestFailover(t *testing.T) {
	t.Parallel()
	g := startGroup(t)
	opts := optionsOf(10 * time.Second)
	bless(t, g.url, opts)
	a, b := open(t, g.url, opts), open(t, g.url, opts)
	req := func(name string) *driver.Request { return lasting(name, opts.TTL) }
	locks := openClient(t, g.url, opts)
	kept := acquire(t, locks, "kept")
	lost := take(t, a, req("lost"))
	next := wait(t, g.master, b, req("lost"))
	for _, r := range g.replicas {
		r.do("config", "set", "replica-read-only", "no")
		await(t, "the replica does not get the lease at all", func() bool { return r.do("del", lockKey(defaultPrefix, "lost")) == "1" })
	}
	g.master.kill()
	await(t, "the sentinels do not find a new master", func() bool { _, err := a.Inspect(t.Context(), "kept"); return err == nil })
	fails(t, "Renew of the lease that the new master does not know", errorOf(lost.Renew(t.Context(), opts.TTL)), driver.ErrLost)
	after := next.granted(opts.MaxTTL + 15*time.Second)
	notEarly(t, lost, opts.TTL, next.at)
	if after.Token() <= lost.Token() {
		t.Errorf("token %d after %d", after.Token(), lost.Token())
	}
	release(t, after)
	if err := kept.Err(); err != nil {
		t.Errorf("the lease that the new master knows has ended: %v", err)
	}
	fails(t, "TryAcquire of the lease that the new master knows", errorOf(b.TryAcquire(t.Context(), req("kept"))), driver.ErrHeld)
	release(t, kept)
}
