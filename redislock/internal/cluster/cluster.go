// SPDX-License-Identifier: Apache-2.0

// Package cluster routes requests to Redis servers: to the masters of a Redis Cluster, by which one has
// a hash slot, where that is now if it has moved, and where its messages are heard; or to one server,
// which is a cluster with a single slot.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Cluster is the masters of a Redis Cluster, or one server. Each is a Server of its own, with its own
// connection, scripts and run, so that one that hangs does not hold up the others. This
// package routes keys, and not the client: scripts belong to one run of one node, and
// must be called by the names that they have there.
type Cluster struct {
	conf  epoch.Config // of the Servers
	nodes conn.Nodes
	one   *epoch.Server // of a cluster that is one server

	// Before is of tests. It is called before a script is sent.
	Before func(script int)

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // subscriptions, and what is done in the background

	mu            sync.Mutex                // guards the fields below
	owners        []*node                   // by slot
	servers       map[string]*node          // by address
	subscriptions map[int]*slotSubscription // by slot
	watching      bool                      // the nodes with subscriptions are watched
	asking        *survey                   // under way, or the last one
}

// New returns the Cluster that some nodes belong to. It sends nothing.
func New(nodes conn.Nodes, conf epoch.Config) *Cluster {
	c := &Cluster{conf: conf, nodes: nodes, owners: make([]*node, epoch.SlotCount), servers: make(map[string]*node), subscriptions: make(map[int]*slotSubscription)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.conf.Slots = c
	return c
}

// One returns one server, with a single slot.
func One(s *epoch.Server) *Cluster {
	n := &node{addr: s.Addr, srv: s, dialed: true, ready: make(chan struct{})}
	close(n.ready)
	c := &Cluster{conf: s.Config, one: s, owners: []*node{n}, servers: map[string]*node{n.addr: n}}
	c.subscriptions = map[int]*slotSubscription{0: {Subscription: s.Subscription(), users: 1}} // the server keeps it up, and it does not end
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Many reports whether there may be more than one server.
func (c *Cluster) Many() bool { return c.one == nil }

// slot returns the slot of a key.
func (c *Cluster) slot(key string) int {
	if c.one != nil {
		return 0
	}
	return slotOf(key)
}

// spawn does something in the background, unless the Cluster is closed. Cluster.mu
// is held.
func (c *Cluster) spawn(f func()) bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.work.Go(f)
	return true
}

var errClosed = driver.ErrClosed

// owner returns the node that has a slot, as far as the Cluster knows.
func (c *Cluster) owner(ctx context.Context, slot int) (*epoch.Server, error) {
	n := c.ownerNow(slot)
	if n == nil {
		if err := c.survey(ctx, nil); err != nil {
			return nil, err
		}
		if n = c.ownerNow(slot); n == nil {
			return nil, errNobody(slot)
		}
	}
	return c.connect(ctx, n)
}

func (c *Cluster) ownerNow(slot int) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.owners[slot]
	if n != nil {
		n.used = driver.Now()
	}
	return n
}

func errNobody(slot int) error {
	return fmt.Errorf("CLUSTERDOWN no node has the hash slot %d", slot)
}

// assign records which node has a slot.
func (c *Cluster) assign(slot int, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners[slot] = c.at(addr)
	c.follow()
}

// masters returns the nodes that have slots.
func (c *Cluster) masters(ctx context.Context) ([]*node, error) {
	if err := c.survey(ctx, nil); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := make(map[*node]bool)
	for _, n := range c.owners {
		if n != nil {
			nodes[n] = true
		}
	}
	return slices.Collect(maps.Keys(nodes)), nil
}

// Bind finds the masters and binds one of them, or another if that hangs.
func (c *Cluster) Bind(ctx context.Context) error {
	nodes, err := c.masters(ctx)
	if err != nil {
		return conn.NotBound(ctx, err).Err
	}
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	answers := make(chan error, len(nodes))
	for under := 0; len(nodes)+under > 0; {
		var patience <-chan time.Time
		if len(nodes) > 0 {
			n := nodes[0]
			nodes = nodes[1:]
			under++
			go func() { answers <- c.bind(ctx, n) }()
			patience = time.After(500 * time.Millisecond)
		}
		select {
		case err = <-answers:
			under--
			if err == nil {
				return nil
			}
		case <-patience:
		}
	}
	return conn.NotBound(ctx, err).Err
}

func (c *Cluster) bind(ctx context.Context, n *node) error {
	s, err := c.connect(ctx, n)
	if err == nil {
		_, err = s.Bound(ctx, nil)
	}
	return err
}

// Agree makes sure that all clients have the same pattern, by the record of the slot in which it is.
func (c *Cluster) Agree(ctx context.Context, record bool) error {
	if c.one != nil {
		return c.one.Agree(ctx, record)
	}
	return epoch.Agree(ctx, c.Send, c.conf.Layout, c.EpochKey(c.conf.Prefix+"pattern"), record)
}

// Servers returns the masters that have slots.
func (c *Cluster) Servers(ctx context.Context) ([]*epoch.Server, error) {
	nodes, err := c.masters(ctx)
	if err != nil {
		return nil, err
	}
	servers, errs := make([]*epoch.Server, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { servers[i], errs[i] = c.connect(ctx, n) })
	}
	all.Wait()
	return servers, errors.Join(errs...)
}

// EpochKey is the key of the record of the epoch of a lock's key.
func (c *Cluster) EpochKey(key string) string { return c.epochKey(c.slot(key)) }

// floors is how many floors of tokens one server has: enough that two names that many wait for rarely
// have the same, and a megabyte at most.
const floors = 8192

// FloorKey is the key of the floor of a lock's tokens. In a cluster the locks of a slot share it, and at one server
// some of all locks.
func (c *Cluster) FloorKey(key string) string {
	if c.one != nil {
		var text [64]byte // strconv.Itoa would make another string
		return string(strconv.AppendUint(append(append(text[:0], c.conf.Prefix...), "token:"...), uint64(crc32.ChecksumIEEE([]byte(key))%floors), 10))
	}
	return c.conf.Prefix + "token:{" + slotTag(slotOf(key)) + "}"
}

// At returns the server that has a key, as far as is known.
func (c *Cluster) At(key string) *epoch.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.owners[c.slot(key)]; n != nil {
		return n.now()
	}
	return nil
}

// Has reports whether a key is at the server of a connection.
func (c *Cluster) Has(at *conn.Conn, key string) bool {
	s := c.At(key)
	return s != nil && s.Conn == at
}

// Close ends what was begun in the background, and closes the Servers.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.cancel()
	nodes := c.servers
	c.servers = nil
	c.mu.Unlock()
	var late []*node
	for _, n := range nodes {
		if s := n.now(); s != nil {
			s.Close() // which ends the requests that wait for it
		} else {
			late = append(late, n)
		}
	}
	c.work.Wait()
	for _, n := range late {
		if s := n.now(); s != nil {
			s.Close()
		}
	}
}
