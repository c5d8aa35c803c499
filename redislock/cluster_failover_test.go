// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// TestClusterFailover: a replica takes over that lacks a lease. Nobody gets that before
// it has ended; the lease that the replica knows is renewed; waiters outlive it all.
// Without the guard there are two holders.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	master, replica := c.masters[0], c.replicas[0]
	opts := optionsOf(10 * time.Second)
	c.bless(opts)
	a, b := open(t, c.url(), opts), open(t, c.url(), opts)
	lost := take(t, a, lasting(c.nameOn(0, "lost"), opts.TTL))
	keep := func() {
		t.Helper()
		if _, err := lost.Renew(t.Context(), opts.TTL); err != nil {
			t.Fatalf("Renew = %v: the preparations take too long", err)
		}
	}

	for _, r := range c.all() {
		c.must(r, "acl", "setuser", "blind", "on", "nopass", "~*", "&*", "+@all", "-info")
	}
	unguarded := *opts
	unguarded.AllowUnguarded, unguarded.Prefix, unguarded.Username, unguarded.Password = true, "unguarded:", "blind", "x"
	unguarded.TTL, unguarded.MaxTTL = 5*patience, 5*patience // however long the failover takes
	x, y := open(t, c.url(), &unguarded), open(t, c.url(), &unguarded)
	control := take(t, x, lasting(c.nameOn(0, "control"), unguarded.TTL))

	c.must(replica, "config", "set", "replica-read-only", "no")
	c.awaitReplica()
	c.must(replica, "flushall")
	keep()
	c.bless(opts) // the replica has the records of the epochs, and those of its master
	locks := openClient(t, c.url(), opts)
	kept := acquire(t, locks, c.nameOn(0, "kept"))
	keep()
	next := wait(t, master, b, lasting(c.nameOn(0, "lost"), opts.TTL))
	c.awaitReplica()
	master.kill()

	await(t, "the replica does not take over", func() bool { return replica.do("get", "x{"+kept.Name()+"}") == "" })
	if !eventually(patience, func() bool {
		_, err := y.TryAcquire(t.Context(), lasting(c.nameOn(0, "control"), unguarded.TTL))
		return err == nil
	}) {
		t.Error("without the guard, the new master does not grant the name")
	} else if driver.Now() > control.Since().Add(unguarded.TTL-driver.Drift(unguarded.TTL)) {
		t.Error("too late to see a second holder")
	}
	await(t, "the holder of the lease that the new master does not know is not told", func() bool {
		_, err := lost.Renew(t.Context(), opts.TTL)
		return errors.Is(err, driver.ErrLost)
	})
	after := next.granted(opts.MaxTTL + 15*time.Second)
	notEarly(t, lost, opts.TTL, next.at)
	if after.Token() <= lost.Token() {
		t.Errorf("token %d after %d", after.Token(), lost.Token())
	}
	release(t, after)
	if err := kept.Err(); err != nil {
		t.Errorf("the lease that the new master knows has ended: %v", err)
	}
	release(t, kept)
}

// TestClusterWaitReplicas: WaitReplicas also works while a slot is moving, where no new
// key can be written.
func TestClusterWaitReplicas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	c.bless(longOptions())
	opts := longOptions()
	opts.WaitReplicas = 1
	s := open(t, c.url(), opts)
	name := c.nameOn(0, "moved")
	g := take(t, s, long(name))
	renew := func() error {
		_, err := g.Renew(t.Context(), time.Minute)
		return err
	}
	from, to, slot := c.masters[0], c.masters[1], c.slotOf(name)
	from.do("del", s.server.EpochKey(lockKey(defaultPrefix, name))+":mark")
	c.must(to, "cluster", "setslot", slot, "importing", from.id)
	c.must(from, "cluster", "setslot", slot, "migrating", to.id)
	succeeds(t, "Renew at a node that is about to give the slot away", renew())
	c.move(name, from, to, nil)
	fails(t, "Renew at a node without replicas", renew(), nil, "0 of 1 replicas")
	c.must(from, "cluster", "setslot", slot, "importing", to.id)
	c.must(to, "cluster", "setslot", slot, "migrating", from.id)
	host, port, _ := net.SplitHostPort(from.Addr)
	c.must(to, "migrate", host, port, lockKey(defaultPrefix, name), "0", "5000")
	succeeds(t, "Renew at a node that is being given the slot", renew())
}

// TestClusterPassedOver: a waiter with its subscription at a replica gets messages that
// are sent at the master, but the master does not count it. The master passes it over,
// and so must not send it a message, which it would trust.
func TestClusterPassedOver(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	c.bless(longOptions())
	master, replica := c.masters[0], c.replicas[0]
	s := open(t, c.url(), longOptions())
	name := c.nameOn(0, "over")
	key := lockKey(defaultPrefix, name)
	channel := s.server.ChannelFor(key) + "ghost"
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{replica.Addr}, ForceSingleClient: true, DisableCache: true})
	must(t, err)
	defer client.Close()
	heard := make(chan string, 10)
	go client.Receive(t.Context(), client.B().Ssubscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) { heard <- m.Message })
	await(t, "nobody listens at the replica", func() bool { return replica.do("pubsub", "shardchannels") == channel })
	g := take(t, s, long(name))
	master.do("zadd", key+queueSuffix, "1", attemptText("lease", "ghost", exclusive, "{}"))
	release(t, g)
	if out := master.do("exists", key, key+queueSuffix); out != "0" {
		t.Errorf("EXISTS of the lock and its queue = %s; want both gone", out)
	}
	master.do("spublish", channel, "end")
	if first := within(t, "the replica does not pass messages on", heard); first != "end" {
		t.Errorf("it was passed over, and is told %q", first)
	}
}

// TestClusterEarsFollow: a waiter has its subscription at the new master soon, although it
// does not look, and the former master sends nothing or hangs.
func TestClusterEarsFollow(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	c.bless(longOptions())
	a, b := open(t, c.url(), longOptions()), open(t, c.url(), longOptions())
	name := c.nameOn(0, "follow")
	take(t, a, long(name))
	shard := []*redis{c.masters[0], c.replicas[0]}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits sync.WaitGroup
	acquire := func(s *party) {
		waits.Go(func() {
			_, err := s.Acquire(ctx, long(name))
			// The former master says so itself, or does not answer any more: a client asks again.
			for errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
				_, err = s.Acquire(ctx, long(name))
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire = %v", err)
			}
		})
	}
	acquire(a)
	await(t, "nobody waits", func() bool { return queueLen(shard[0], name) == 1 })
	for i := range 9 { // it is not its turn
		after := strconv.FormatInt(time.Now().UnixMicro(), 10)
		shard[0].do("zadd", lockKey(defaultPrefix, name)+queueSuffix, after, attemptText(fmt.Sprint("lease", i), a.id, exclusive, "{}"))
	}
	var looks sync.RWMutex // held: the waiter does not look
	b.server.Before = func(int) { looks.RLock(); defer looks.RUnlock() }
	defer func() { looks.TryLock(); looks.Unlock() }()
	acquire(b)
	listens := func(r *redis) func() bool {
		return func() bool { return strings.Contains(r.do("pubsub", "shardchannels"), b.id) }
	}
	await(t, "the waiter does not listen", listens(shard[0]))
	leads := func(r *redis) func() bool {
		return func() bool { return epoch.ParseInfo(r.do("info", "replication"))["role"] == "master" }
	}
	looks.Lock()
	c.takeOver(shard[1])
	await(t, "a replica took over in order, and the waiter does not listen to it", listens(shard[1]))
	looks.Unlock()
	await(t, "the waiter goes on listening to the former master", func() bool { return !listens(shard[0])() })
	await(t, "the former master does not follow", func() bool { return epoch.ParseInfo(shard[0].do("info", "replication"))["master_link_status"] == "up" })
	bestOf(t, "a replica took over from a master that hangs, and the waiter listened to it", 3*time.Second, func(t *testing.T) time.Duration {
		shard[0], shard[1] = shard[1], shard[0]
		shard[0].stop() // and its connections are there still
		await(t, "the replica does not take over", leads(shard[1]))
		began := time.Now()
		await(t, "the waiter does not listen to the new master", listens(shard[1]))
		took := time.Since(began)
		shard[0].cont()
		await(t, "the former master does not notice", func() bool { return !leads(shard[0])() })
		return took
	})
	cancel()
	waits.Wait()
}
