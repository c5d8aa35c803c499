// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// testCluster is a cluster of a test: masters that share the slots evenly, and replicas
// of them in turn.
type testCluster struct {
	t        testing.TB
	masters  []*redis
	replicas []*redis
}

// clusters has room for as many as run at a time: with more of them the nodes are so late
// that they take each other for dead.
var clusters = make(chan struct{}, 2*runtime.GOMAXPROCS(0))

// startCluster starts a cluster of three masters.
func startCluster(t testing.TB, replicas int, args ...string) *testCluster {
	t.Helper()
	clusters <- struct{}{}
	t.Cleanup(func() { <-clusters })
	for range 5 { // somebody else may take one of the ports before the server does
		if c := tryCluster(t, replicas, args); c != nil {
			return c
		}
	}
	t.Fatal("no cluster")
	return nil
}

func tryCluster(t testing.TB, replicas int, args []string) *testCluster {
	t.Helper()
	c := &testCluster{t: t}
	timeout := "5000" // in which a node that is slow is not dead
	if replicas > 0 {
		timeout = "1000" // a replica takes over after this
	}
	for i := range 3 + replicas {
		_, bus, _ := net.SplitHostPort(drivertest.FreeAddr(t))
		r := newServer(t)
		r.Addr, r.id = drivertest.FreeAddr(t), fmt.Sprintf("%040x", i+1)
		r.Args = append([]string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", timeout,
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"}, args...)
		if i < 3 {
			c.masters = append(c.masters, r)
		} else {
			c.replicas = append(c.replicas, r)
		}
	}
	for i, r := range c.all() {
		c.introduce(r)
		if err := r.Start(); err != nil {
			t.Log(err)
			for _, r := range c.all()[:i] {
				r.kill()
			}
			return nil
		}
	}
	c.awaitOK()
	await(t, "the replicas do not follow", func() bool {
		online := 0
		for _, r := range c.masters {
			online += strings.Count(r.do("info", "replication"), "state=online")
		}
		return online == replicas
	})
	return c
}

func (c *testCluster) all() []*redis {
	return append(c.masters[:len(c.masters):len(c.masters)], c.replicas...)
}

// introduce writes what a node would know if they had met each other.
func (c *testCluster) introduce(me *redis) {
	c.t.Helper()
	var b strings.Builder
	for i, r := range c.all() {
		flags, master, slots := "master", "-", ""
		if i < len(c.masters) {
			first, last := slotCount*i/len(c.masters), slotCount*(i+1)/len(c.masters)-1
			slots = fmt.Sprintf(" %d-%d", first, last)
		} else {
			flags, master = "slave", c.masters[i%len(c.masters)].id
		}
		if r == me {
			flags = "myself," + flags
		}
		fmt.Fprintf(&b, "%s %s@%s %s %s 0 0 %d connected%s\n", r.id, r.Addr, r.Args[3], flags, master, i+1, slots)
	}
	fmt.Fprintf(&b, "vars currentEpoch %d lastVoteEpoch 0\n", len(c.all()))
	must(c.t, os.WriteFile(filepath.Join(me.Dir, "nodes.conf"), []byte(b.String()), 0o600))
}

const slotCount = 16384

// awaitOK waits until all nodes find that the cluster is whole.
func (c *testCluster) awaitOK() {
	c.t.Helper()
	for _, r := range c.all() {
		if !eventually(30*patience, func() bool {
			info := epoch.ParseInfo(r.do("cluster", "info"))
			return info["cluster_state"] == "ok" && info["cluster_slots_ok"] == strconv.Itoa(slotCount)
		}) {
			c.t.Fatalf("the cluster does not come up:\n%s", r.do("cluster", "info"))
		}
	}
}

// url names two of the nodes.
func (c *testCluster) url() string {
	return c.masters[2].url() + "?" + url.Values{"addr": {c.masters[1].Addr}}.Encode()
}

func (c *testCluster) bless(opts *Options) {
	c.t.Helper()
	var err error
	if !eventually(patience, func() bool { err = Bless(context.Background(), c.url(), patient(opts)); return err == nil }) {
		c.t.Fatal(err)
	}
}

// slotOf returns the slot of a name.
func (c *testCluster) slotOf(name string) string {
	return c.masters[2].do("cluster", "keyslot", lockKey(defaultPrefix, name))
}

// nameOn returns a name that one of the masters has at first.
func (c *testCluster) nameOn(master int, prefix string) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s%d", prefix, i)
		slot, err := strconv.Atoi(c.slotOf(name))
		must(c.t, err)
		if slot*len(c.masters)/slotCount == master {
			return name
		}
	}
}

// move moves the slot of a name as redis-cli --cluster reshard does. In the middle,
// when some of the keys have moved, it calls midway.
func (c *testCluster) move(name string, from, to *redis, midway func()) {
	c.t.Helper()
	slot := c.slotOf(name)
	c.must(to, "cluster", "setslot", slot, "importing", from.id)
	c.must(from, "cluster", "setslot", slot, "migrating", to.id)
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		keys := strings.Fields(from.do("cluster", "getkeysinslot", slot, "1"))
		if len(keys) == 0 {
			break
		}
		if out := from.do("migrate", host, port, keys[0], "0", "5000"); out != "OK" && out != "NOKEY" {
			c.t.Fatalf("MIGRATE %s: %s", keys[0], out)
		}
		if midway != nil {
			midway()
			midway = nil
		}
	}
	for _, r := range append([]*redis{to, from}, c.masters...) {
		c.must(r, "cluster", "setslot", slot, "node", to.id)
	}
	// A move that comes before all know of this one may get the same epoch, and then either may stand.
	await(c.t, "the masters do not agree on the epoch", func() bool {
		epochs := make(map[string]bool)
		for _, r := range c.masters {
			_, after, _ := strings.Cut(r.do("cluster", "info"), "cluster_current_epoch:")
			epoch, _, _ := strings.Cut(after, "\n")
			epochs[epoch] = true
		}
		return len(epochs) == 1
	})
}

func (c *testCluster) must(r *redis, args ...string) {
	c.t.Helper()
	if out := r.do(args...); out != "OK" {
		c.t.Fatalf("%v: %s", args, out)
	}
}

// takeOver makes a replica the master. It gives the nodes some time, after which they forget the command.
func (c *testCluster) takeOver(r *redis, how ...string) {
	c.t.Helper()
	for range 20 {
		_, _ = r.Do(append([]string{"cluster", "failover"}, how...)...) // a master refuses it
		if eventually(7*time.Second, func() bool { return epoch.ParseInfo(r.do("info", "replication"))["role"] == "master" }) {
			return
		}
	}
	c.t.Fatal("the replica does not take over")
}

// clusterRecovery is longer than it takes masters that have all been restarted to
// accept writes again.
const clusterRecovery = 5 * time.Second

// restart restarts all nodes, at once.
func (c *testCluster) restart() {
	c.t.Helper()
	var all sync.WaitGroup
	for _, r := range c.all() {
		all.Go(r.restart)
	}
	all.Wait()
}

// awaitReplica waits until the replica has all that its master has.
func (c *testCluster) awaitReplica() {
	c.t.Helper()
	offset := func(r *redis, field string) string { return epoch.ParseInfo(r.do("info", "replication"))[field] }
	await(c.t, "the replica does not follow", func() bool {
		return offset(c.masters[0], "master_repl_offset") == offset(c.replicas[0], "slave_repl_offset")
	})
}

// usurp makes the slot of a name that of another master without moving its keys, as
// redis-cli --cluster fix does with what a master has that is lost.
func (c *testCluster) usurp(name string, master int) {
	c.t.Helper()
	slot, to := c.slotOf(name), c.masters[master]
	to.do("cluster", "bumpepoch")
	// A node that has imported a slot says so at once. Otherwise the others learn it up to half of their node timeout
	// later, and the former owner grants leases in that time.
	to.do("cluster", "setslot", slot, "importing", c.masters[(master+1)%len(c.masters)].id)
	c.must(to, "cluster", "setslot", slot, "node", to.id)
	await(c.t, "the others do not learn whose the slot is", func() bool {
		for _, r := range c.masters {
			out := r.do("get", lockKey(defaultPrefix, name))
			if r != to && !strings.Contains(out, "MOVED "+slot+" "+to.Addr) {
				return false
			}
		}
		return true
	})
}
