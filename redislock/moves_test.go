// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// grownUp waits until a server has been up for longer than MaxTTL: then it can have forgotten
// nothing.
func grownUp(t testing.TB, maxTTL time.Duration, servers ...*redis) {
	t.Helper()
	for _, r := range servers {
		await(t, "the server does not get older", func() bool {
			up, _ := strconv.Atoi(epoch.ParseInfo(r.do("info", "server"))["uptime_in_seconds"])
			return time.Duration(up-2)*time.Second >= maxTTL
		})
	}
}

// notBefore acquires what another lease holds, or held, in a server that does not
// know it, and fails if that succeeds while the other is trusted.
func notBefore(t testing.TB, s *party, other *participant.Lease, ttl time.Duration) *participant.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ttl+2*patience)
	defer cancel()
	var g *participant.Lease
	var err error
	if !eventually(ttl+2*patience, func() bool {
		req := lasting("deploy", ttl)
		g, err = s.Acquire(ctx, req)
		return err == nil
	}) {
		t.Fatalf("Acquire = %v; want a grant in the end", err)
	}
	notEarly(t, other, ttl, driver.Now())
	return g
}

// TestOtherServer: behind one address there are two servers in turn, none of which
// has ever been a replica. Both have been up for long.
func TestOtherServer(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // longer than it takes to come to the other server
	opts := optionsOf(ttl)
	first, second := startServer(t), startServer(t)
	grownUp(t, ttl, first, second)
	link := drivertest.NewLink(t, first.Addr)
	a, b, idle := openThrough(t, link, opts), openThrough(t, link, opts), openThrough(t, link, opts)
	defer a.Close()
	defer b.Close()
	defer idle.Close()
	redirect := func(from, to *redis) {
		t.Helper()
		// A client that is away while the address leads elsewhere and back cannot know:
		// docs/guarantees/redis.md has that as an assumption.
		await(t, "not every client has come to the server", func() bool {
			return strings.Count(from.do("client", "list", "type", "pubsub"), "id=") == 3
		})
		link.Redirect(to.Addr)
	}
	req := lasting("deploy", ttl)
	held := take(t, a.party, req)
	redirect(first, second)
	next := notBefore(t, b.party, held, ttl) // in the second server
	for i := range 2 {
		// Back again: the first has its scripts and its record still, and the client that
		// asks it may have done nothing since.
		redirect(second, first)
		next = notBefore(t, []*party{idle.party, b.party}[i], next, ttl)
		redirect(first, second)
		next = notBefore(t, a.party, next, ttl)
	}
}

// TestNewToOtherServer: the address leads to a server that nobody has used, and the first that comes
// there has not had the lease.
func TestNewToOtherServer(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // longer than it takes to come to the other server
	opts := optionsOf(ttl)
	first, second := startServer(t), startServer(t)
	grownUp(t, ttl, first, second)
	link := drivertest.NewLink(t, first.Addr)
	a, b := open(t, first.url(), opts), openThrough(t, link, opts)
	if _, err := b.party.Inspect(t.Context(), "deploy"); err != nil { // it knows the first server
		t.Fatal(err)
	}
	req := lasting("deploy", ttl)
	held := take(t, a, req)
	link.Redirect(second.Addr)
	notBefore(t, b.party, held, ttl)
}

// TestLateArrival: a client that comes back after the quarantine, or after Bless has
// ended it, does not start another one.
func TestLateArrival(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]func(*redis, *party) error{
		"after the wait": func(r *redis, s *party) error {
			var err error
			eventually(patience, func() bool {
				var g *participant.Lease
				if g, err = s.Acquire(t.Context(), request("deploy")); err == nil {
					err = g.Release(t.Context())
				}
				return err == nil
			})
			return err
		},
		"after Bless": func(r *redis, _ *party) error { return Bless(t.Context(), r.url(), testOptions()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startServer(t)
			bless(t, r.url(), testOptions())
			link := drivertest.NewLink(t, r.Addr)
			late, early := openThrough(t, link, testOptions()), open(t, r.url(), testOptions())
			defer late.Close()
			take(t, late.party, request("other"))
			link.Set(drivertest.BlackHole)
			time.Sleep(3 * time.Second) // longer than it may take to notice the silence
			r.restart()
			must(t, ready(r, early))
			link.Set(drivertest.Healthy)
			await(t, "the other participant does not come back", func() bool { _, err := late.Inspect(t.Context(), "deploy"); return err == nil })
			var err error
			if !eventually(patience, func() bool {
				_, err = late.TryAcquire(t.Context(), request("deploy"))
				return !errors.Is(err, driver.ErrUncertain)
			}) || err != nil {
				t.Errorf("TryAcquire of who comes back = %v; want a grant", err)
			}
			if _, err := early.TryAcquire(t.Context(), request("another")); err != nil {
				t.Errorf("TryAcquire of who was there = %v; want a grant", err)
			}
		})
	}
}

// TestMasterInBetween: a master becomes the replica of another, which lacks what
// it has granted last, and then a master again. All in one run.
func TestMasterInBetween(t *testing.T) {
	t.Parallel()
	r, other := blessedServer(t, "--repl-diskless-sync-delay", "0"), startServer(t, "--repl-diskless-sync-delay", "0")
	a, b := openLong(t, r), openLong(t, r)
	take(t, a, long("other")) // the copy has the look that this takes
	follow(t, other, r)
	other.do("replicaof", "no", "one")
	req := long("deploy")
	take(t, a, req)
	follow(t, r, other)
	r.do("replicaof", "no", "one")
	if r.do("exists", lockKey(defaultPrefix, "deploy")) == "1" || r.do("exists", a.server.EpochKey("")) == "0" {
		t.Fatal("the data is not that of the other server")
	}
	for range 3 {
		fails(t, "TryAcquire", errorOf(b.TryAcquire(t.Context(), long("deploy"))), driver.ErrUnavailable)
	}
}

// TestReplicaInName: a master becomes a replica that gets no data, and then a master again. It has all that it had,
// so only the id of its data tells that another one may have been the master, and that is looked at
// after LOOK.
func TestReplicaInName(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a := openLong(t, r)
	take(t, a, long("other"))
	record := func() string {
		release(t, take(t, a, long("deploy")))
		return r.do("get", a.server.EpochKey(""))
	}
	await(t, "each grant has a look of its own", func() bool {
		before := record()
		// At once, as LOOK is short. And the client joins the epoch once more when it has a subscription.
		return before == record() && r.do("pubsub", "channels") != ""
	})
	r.do("replicaof", "127.0.0.1", "1")
	r.do("replicaof", "no", "one")
	var err error
	if !eventually(patience, func() bool {
		g, e := a.TryAcquire(t.Context(), long("deploy"))
		if err = e; err == nil {
			release(t, g)
		}
		return errors.Is(err, driver.ErrUnavailable)
	}) {
		t.Fatalf("TryAcquire = %v; want ErrUnavailable in the end", err)
	}
}

// TestSealIsNotCopied: a server that has its data from another one, or from a disk, has a seal that is broken.
func TestSealIsNotCopied(t *testing.T) {
	t.Parallel()
	r, other := startServer(t, "--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"), startServer(t)
	opts := longOptions()
	opts.Prefix = strings.Repeat("long/", 20) // some servers keep a short string in one piece with its key
	bless(t, r.url(), opts)
	a := open(t, r.url(), opts)
	seal := a.server.EpochKey("") + ":seal"
	r.do("set", seal, strings.Repeat("1", 100))
	take(t, a, long("deploy"))
	if got := r.do("object", "encoding", seal); got != "raw" {
		t.Fatalf("the encoding of the seal is %q; want raw", got)
	}
	follow(t, other, r)
	if got := other.do("object", "encoding", seal); got != "int" {
		t.Errorf("the encoding of the seal at a replica is %q; want int", got)
	}
	r.do("debug", "reload")
	if got := r.do("object", "encoding", seal); got != "int" {
		t.Errorf("the encoding of the seal after a reload is %q; want int", got)
	}
	take(t, a, long("another"))
	if got := r.do("object", "encoding", seal); got != "raw" {
		t.Errorf("the encoding of the seal after a look is %q; want raw", got)
	}
}

// TestReplicaHasNoLook: what a master has looked at is not in the record that its replicas have and may give
// back, so a master that was a replica for a moment looks at once.
func TestReplicaHasNoLook(t *testing.T) {
	t.Parallel()
	r, other := blessedServer(t, "--repl-diskless-sync-delay", "0"), startServer(t)
	follow(t, other, r)
	a := openLong(t, r)
	take(t, a, long("deploy"))
	key := a.server.EpochKey("")
	await(t, "the replica has no lease", func() bool { return other.do("exists", lockKey(defaultPrefix, "deploy")) == "1" })
	unseen := " " + strings.Repeat("0", 16)
	// The client may have joined the epoch once more after the grant, as its subscription came; that forgets the look.
	if !eventually(patience, func() bool {
		release(t, take(t, a, long("again")))
		return !strings.HasSuffix(r.do("get", key), unseen)
	}) {
		t.Errorf("the master has not looked: %s", r.do("get", key))
	}
	if had := other.do("get", key); !strings.HasSuffix(had, unseen) {
		t.Errorf("the replica has a look of its master: %s", had)
	}
}

// follow makes a server a replica and waits until it has all data.
func follow(t testing.TB, r, master *redis) {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	r.do("replicaof", host, port)
	await(t, "the replica gets no data", func() bool { return epoch.ParseInfo(r.do("info", "replication"))["master_link_status"] == "up" })
}

// TestFormerReplica: a replica that was promoted so long ago that it does not say
// so any more has a record of another run still.
func TestFormerReplica(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--repl-diskless-sync-delay", "0")
	bless(t, r.url(), testOptions())
	replica := startServer(t, "--repl-diskless-sync-delay", "0", "--repl-backlog-ttl", "1")
	a := open(t, r.url(), testOptions())
	follow(t, replica, r)
	replica.do("replicaof", "no", "one")
	await(t, "the former replica goes on saying that it was one", func() bool {
		return !strings.ContainsAny(epoch.ParseInfo(replica.do("info", "replication"))["master_replid2"], "123456789abcdef")
	})
	grownUp(t, testMaxTTL, replica)
	take(t, a, request("other"))
	closed(t, replica)
}

// appended returns the append-only file of a server, and what is in it.
func appended(t testing.TB, r *redis) (file string, log []byte) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(r.Dir, "appendonlydir", "*.incr.aof"))
	if len(files) != 1 {
		t.Fatalf("the logs are %q", files)
	}
	log, err := os.ReadFile(files[0])
	must(t, err)
	return files[0], log
}

// restartWith restarts a server with another append-only file.
func (r *redis) restartWith(file string, log []byte) {
	r.t.Helper()
	r.kill()
	must(r.t, os.WriteFile(file, log, 0o600))
	r.restart()
}

// TestLogWithoutItsEnd: a server that keeps its data loses the last second of it.
func TestLogWithoutItsEnd(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--appendonly", "yes", "--appendfsync", "everysec")
	bless(t, r.url(), testOptions())
	a, b := open(t, r.url(), testOptions()), open(t, r.url(), testOptions())
	// The server puts off a write while it waits for the disk, for two seconds at most.
	logs := func(key string) (file string, log []byte) {
		if !eventually(patience, func() bool { file, log = appended(t, r); return bytes.Contains(log, []byte(key)) }) {
			t.Fatalf("%s is not in the log", key)
		}
		return file, log
	}
	r.do("set", "mark", "1")
	file, before := logs("mark")
	held := take(t, a, request("deploy"))
	logs(lockKey(defaultPrefix, "deploy"))
	r.restartWith(file, before)
	if r.do("get", "mark") != "1" {
		t.Fatal("the server has lost more than its end")
	}
	notBefore(t, b, held, testMaxTTL)
}

// TestEviction: a server that may throw locks away is refused.
func TestEviction(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru")
	_, err := NewStore(t.Context(), r.url(), testOptions())
	fails(t, "NewStore", err, nil, "maxmemory-policy volatile-lru", "noeviction")
	open(t, r.url()+"?allow_unguarded=true", testOptions())
	r.do("config", "set", "maxmemory", "0")
	open(t, r.url(), testOptions())
	r.do("config", "set", "maxmemory", "100mb", "maxmemory-policy", "noeviction")
	open(t, r.url(), testOptions())
}

// TestRecordFromTheFuture: after the clock was set back the server grants nothing for
// MaxTTL, and not until the time that it once had.
func TestRecordFromTheFuture(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	bless(t, r.url(), testOptions())
	s := open(t, r.url(), testOptions())
	f := strings.Fields(r.do("get", s.server.EpochKey("")))
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	f[3], f[4], f[len(f)-1] = ahead, ahead, ahead // FROM, TILL and SEEN
	r.do("set", s.server.EpochKey(""), strings.Join(f, " "))
	var err error
	if !eventually(patience, func() bool { // the answer may come too late
		_, err = s.TryAcquire(t.Context(), request("deploy"))
		return !errors.Is(err, driver.ErrUncertain)
	}) || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("TryAcquire = %v; want ErrUnavailable", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testMaxTTL+patience)
	defer cancel()
	if _, err := s.Acquire(ctx, request("deploy")); err != nil {
		t.Errorf("Acquire = %v; want a grant after MaxTTL", err)
	}
}
