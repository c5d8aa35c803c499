// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

func optionsOf(ttl time.Duration) *Options {
	return &Options{MaxTTL: ttl, Options: pawl.Options{TTL: ttl}}
}

// TestClusterFirstUse: the first to use a cluster wait for MaxTTL, in all of its slots
// at the same time.
func TestClusterFirstUse(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	opts := optionsOf(3 * time.Second)
	began := driver.Now()
	s := open(t, c.url(), opts)
	g, err := s.Acquire(t.Context(), lasting(c.nameOn(0, "first"), opts.TTL))
	must(t, err)
	if d := driver.Now().Sub(began); d < opts.MaxTTL {
		t.Errorf("the first lease came after %v; want %v", d, opts.MaxTTL)
	}
	await(t, "the slot of the tag 0 has no record", func() bool { return c.masters[2].do("exists", "pawl:epoch:{0}") == "1" })
	other := open(t, c.url(), opts)
	for i := range 300 { // one after the other, this would take a quarter of an hour
		if !eventually(opts.MaxTTL+patience-driver.Now().Sub(g.Since()), func() bool {
			_, err = other.TryAcquire(t.Context(), lasting(fmt.Sprint("other", i), opts.TTL))
			return err == nil
		}) {
			t.Fatalf("after %d more names it takes longer again: %v", i, err)
		}
	}
}

// TestClusterFirstUseBesideDeadNode: a node that is away while the records are made gets
// them when it is back, and not when somebody first needs one.
func TestClusterFirstUseBesideDeadNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	opts := optionsOf(3 * time.Second)
	s := open(t, c.url(), opts)
	name := c.nameOn(0, "first")
	c.masters[2].kill()
	fails(t, "TryAcquire", errorOf(s.TryAcquire(t.Context(), lasting(name, opts.TTL))), driver.ErrUnavailable)
	await(t, "no answer for most slots of the second node", func() bool { return strings.Count(c.masters[1].do("keys", "pawl:epoch:*"), "\n") > 5000 })
	must(t, c.masters[2].Start())
	await(t, "the node that was away has no record of the slot of the tag 0", func() bool { return c.masters[2].do("exists", "pawl:epoch:{0}") == "1" })
}

// TestClusterFirstUserEnds: the first client ends before it has made all records. The next
// one that comes during the quarantine goes on.
func TestClusterFirstUserEnds(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	opts := longOptions()
	name := c.nameOn(0, "first")
	ask := func() {
		t.Helper()
		s := open(t, c.url(), opts)
		fails(t, "TryAcquire", errorOf(s.TryAcquire(t.Context(), long(name))), driver.ErrUnavailable)
		c.awaitRecords()
		s.Close()
	}
	ask()
	var key string // of the record of the slot
	for _, k := range strings.Fields(c.masters[0].do("cluster", "getkeysinslot", c.slotOf(name), "10")) {
		if strings.HasPrefix(k, "pawl:epoch:{") && strings.HasSuffix(k, "}") {
			key = k
		}
	}
	used := c.masters[0].do("get", key)
	for _, r := range c.masters {
		r.do("flushall")
	}
	c.masters[0].do("set", key, used)
	ask()
}

// TestClusterStateOfMissingRecords: a store is not in quarantine because the first client has ended before it had
// made all records, which no other client makes then. It is if a master has lost all of them.
func TestClusterStateOfMissingRecords(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	opts := optionsOf(5 * time.Second)
	c.bless(opts)
	s := open(t, c.url(), opts)
	for _, r := range c.masters {
		r.do("eval", "for i, k in ipairs(redis.call('KEYS', 'pawl:epoch:*')) do if i % 2 == 0 then redis.call('DEL', k) end end", "0")
	}
	if n, err := strconv.Atoi(c.masters[0].do("dbsize")); err != nil || n > slotCount/len(c.masters)*2/3 {
		t.Fatalf("%d keys, %v; want half of the records gone", n, err)
	}
	if info, err := s.Describe(t.Context()); err != nil || info.Closed != 0 || info.MaxTTL != opts.MaxTTL {
		t.Errorf("without half of the records Describe = %+v, %v; want it open", info, err)
	}
	c.masters[1].do("flushall")
	if info, err := s.Describe(t.Context()); err != nil || info.Closed == 0 {
		t.Errorf("after a master has lost its data Describe = %+v, %v; want it closed", info, err)
	}
}

// awaitRecords waits until all slots have a record.
func (c *testCluster) awaitRecords() {
	c.t.Helper()
	for _, r := range c.masters {
		if !eventually(patience, func() bool {
			n, _ := strconv.Atoi(r.do("dbsize"))
			return n >= slotCount/len(c.masters)
		}) {
			c.t.Errorf("%s: slots without a record; keys: %s", r.Addr, r.do("dbsize"))
		}
	}
}

// TestClusterFirstUseLosesAnswers: records are made, but the answers are lost. The client
// does not take them for those of another client that goes on.
func TestClusterFirstUseLosesAnswers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	lossy := new(lossyNodes)
	s := openNodes(t, c.url(), longOptions(), func(n conn.Nodes) conn.Nodes { lossy.Nodes = n; return lossy })
	defer s.Close()
	if a, err := s.Ask(t.Context(), long(c.nameOn(0, "first"))); err == nil && a.Granted {
		t.Errorf("Ask = %+v; want no lease", a)
	}
	c.awaitRecords()
	if n := lossy.lost.Load(); n != int64(len(c.masters)) {
		t.Errorf("%d answers were lost; want one of each master", n)
	}
}

// lossyNodes lose the answers to the second large batch to each node.
type lossyNodes struct {
	conn.Nodes
	lost atomic.Int64
}

func (l *lossyNodes) Dial(ctx context.Context, addr string) (rueidis.Client, error) {
	c, err := l.Nodes.Dial(ctx, addr)
	if c == nil {
		return nil, err
	}
	return &lossyClient{Client: c, nodes: l}, err
}

type lossyClient struct {
	rueidis.Client
	nodes   *lossyNodes
	batches atomic.Int64
}

func (l *lossyClient) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	got := l.Client.DoMulti(ctx, cmds...)
	if len(cmds) < 100 || l.batches.Add(1) != 2 {
		return got
	}
	l.nodes.lost.Add(1)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for i := range got {
		got[i] = l.Client.Do(ended, l.Client.B().Ping().Build())
	}
	return got
}

// clusterForgets are the ways in which a cluster forgets the leases of one slot.
var clusterForgets = map[string]func(c *testCluster, name string){
	"kill -9 and restart empty":   func(c *testCluster, _ string) { c.masters[0].restart() },
	"FLUSHALL":                    func(c *testCluster, _ string) { c.masters[0].do("flushall") },
	"slot moved without its keys": func(c *testCluster, name string) { c.usurp(name, 1) },
	"slot moved there and back without its keys": func(c *testCluster, name string) {
		c.usurp(name, 1)
		c.usurp(name, 0)
	},
}

// TestClusterForgottenLease is TestForgottenLease for what can happen to a cluster.
func TestClusterForgottenLease(t *testing.T) {
	t.Parallel()
	for what, forget := range clusterForgets {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 0)
			opts := optionsOf(8 * time.Second)
			c.bless(opts)
			a, b := open(t, c.url(), opts), open(t, c.url(), opts)
			name := c.nameOn(0, "deploy")
			old := take(t, a, lasting(name, opts.TTL))
			waiting := wait(t, c.masters[0], b, lasting(name, opts.TTL))
			forget(c, name)
			got := make(chan driver.Instant, 1)
			ctx, cancel := context.WithTimeout(t.Context(), opts.MaxTTL+3*patience)
			defer cancel()
			go func() {
				defer close(got)
				for fresh := open(t, c.url(), opts); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
					if g, err := fresh.TryAcquire(context.Background(), lasting(name, opts.TTL)); err == nil {
						got <- driver.Now()
						g.Release(context.Background())
						return
					}
				}
			}()
			release(t, waiting.granted(opts.MaxTTL+3*patience))
			fresh, ok := <-got
			if !ok {
				t.Fatal("a newcomer still waits")
			}
			for _, at := range []driver.Instant{waiting.at, fresh} {
				notEarly(t, old, opts.TTL, at)
			}
			fails(t, "Renew of the forgotten lease", errorOf(old.Renew(t.Context(), opts.TTL)), driver.ErrLost)
		})
	}
}

// TestClusterStoppedMaster: a master that hangs costs only the leases that it has, and
// does not hold up other locks.
func TestClusterStoppedMaster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	opts := optionsOf(6 * time.Second)
	c.bless(opts)
	locks := openClient(t, c.url(), opts)
	var leases []*pawl.Lease
	const each = 20
	for i := range 3 {
		for range each {
			lease := acquire(t, locks, c.nameOn(i, fmt.Sprint("held", len(leases), "/")))
			leases = append(leases, lease)
		}
	}
	stopped, others := leases[:each], leases[each:]
	c.masters[0].stop()
	defer c.masters[0].cont()
	end := time.Now().Add(3 * opts.TTL)
	var slowest time.Duration
	names := []string{c.nameOn(1, "new"), c.nameOn(2, "new")}
	for time.Now().Before(end) {
		for _, name := range names {
			began := time.Now()
			lease, err := locks.TryAcquire(t.Context(), name)
			must(t, err)
			slowest = max(slowest, time.Since(began))
			lease.Release(t.Context())
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("slowest TryAcquire at another node: %v", slowest)
	if slowest > opts.TTL/2 {
		t.Errorf("TryAcquire at another node took %v", slowest)
	}
	for _, l := range others {
		if err := l.Err(); err != nil {
			t.Errorf("a lease at another node has ended: %v", err)
		}
	}
	for _, l := range stopped {
		if !errors.Is(l.Err(), pawl.ErrLost) {
			t.Errorf("a lease at the stopped node: %v; want ErrLost", l.Err())
		}
	}
	// Those who have never seen the cluster find their way around it, too.
	fresh, err := Open(t.Context(), c.url(), opts)
	must(t, err)
	defer fresh.Close()
	succeeds(t, "TryAcquire at another node", errorOf(fresh.TryAcquire(t.Context(), names[0])))
	third := open(t, c.url(), opts)
	short, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	if _, err := third.Acquire(short, lasting(stopped[0].Name(), opts.TTL)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire at the stopped node = %v; want DeadlineExceeded", err)
	}
	began := time.Now()
	third.Close()
	if d := time.Since(began); d > opts.TTL {
		t.Errorf("Close takes %v while a node is stopped", d)
	}
	c.masters[0].cont()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	for !eventuallyAcquires(ctx, locks, stopped[0].Name()) {
		if ctx.Err() != nil {
			t.Fatal("the node is not used again when it goes on")
		}
	}
}

func eventuallyAcquires(ctx context.Context, locks *pawl.Client, name string) bool {
	lease, err := locks.Acquire(ctx, name)
	if err != nil {
		return false
	}
	lease.Release(ctx)
	return true
}

// TestClusterDown: a cluster that refuses requests because one master is missing: the
// error says so.
func TestClusterDown(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0, "--cluster-require-full-coverage", "yes")
	c.bless(longOptions())
	s := open(t, c.url(), longOptions())
	name := c.nameOn(0, "held")
	g := take(t, s, long(name))
	c.masters[1].kill()
	if !eventually(3*patience, func() bool {
		_, err := s.TryAcquire(t.Context(), long(c.nameOn(0, "new")))
		return errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "the cluster is down, for want of a master")
	}) {
		t.Error("TryAcquire does not say that the cluster is down")
	}
	if _, err := g.Renew(t.Context(), time.Minute); err == nil || errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %v; want an error, but not that the lease is lost", err)
	}
	c.masters[1].restart()
	if !eventually(3*patience, func() bool { _, err := g.Renew(t.Context(), time.Minute); return err == nil }) {
		t.Error("the lease is not renewed when the cluster is whole again")
	}
}
