// SPDX-License-Identifier: Apache-2.0

// Package cluster routes requests to the masters of a Redis Cluster. It knows which master has a hash
// slot, follows slots that move, and subscribes to messages where each slot is. It also serves a single
// server, as a cluster with one slot.
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Cluster is the masters of a Redis Cluster, or one server. Each master is an epoch.Server, with its
// own connection, scripts and run, so that a master that hangs does not delay the others. This package
// routes keys, since rueidis cannot: a script belongs to one run of one node, and has another digest at
// each.
type Cluster struct {
	conf  epoch.Config // of the Servers
	nodes conn.Nodes
	one   *epoch.Server // the only server; nil in a Redis Cluster

	// Before is for tests. Run calls it first.
	Before func(script int)

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutines of spawn

	mu            sync.Mutex                // guards the fields below
	owners        []*node                   // by slot
	servers       map[string]*node          // by address
	subscriptions map[int]*slotSubscription // by slot
	watching      bool                      // watch is running
	asking        *survey                   // under way, or the last one
}

// New returns the Cluster to which nodes belong. It sends nothing.
func New(nodes conn.Nodes, conf epoch.Config) *Cluster {
	c := &Cluster{conf: conf, nodes: nodes, owners: make([]*node, epoch.SlotCount), servers: make(map[string]*node), subscriptions: make(map[int]*slotSubscription)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.conf.Slots = c
	return c
}

// One returns the Cluster that consists of one server, with one slot.
func One(s *epoch.Server) *Cluster {
	n := &node{addr: s.Addr, srv: s, dialed: true, ready: make(chan struct{})}
	close(n.ready)
	c := &Cluster{conf: s.Config, one: s, owners: []*node{n}, servers: map[string]*node{n.addr: n}}
	c.subscriptions = map[int]*slotSubscription{0: {Subscription: s.Subscription(), users: 1}} // the Server keeps it up; with a user, it never ends
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

// spawn runs f in the background and returns true. If the Cluster is closed it does nothing and
// returns false. The caller holds c.mu.
func (c *Cluster) spawn(f func()) bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// owner returns the node that has a slot. It asks the cluster only if c knows of none.
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

// ownerNow returns the node that c takes for the owner of a slot, or nil.
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

// masters asks the cluster which nodes have slots.
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

// Bind finds the masters and binds one of them. It tries the next one if a master fails, or does
// not answer within 500 ms.
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

// Agree returns an error if other clients have another pattern; see epoch.Agree. In a cluster it uses the record of the
// slot that has the key with the pattern.
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
	servers := make([]*epoch.Server, len(nodes))
	err = each(nodes, func(i int, n *node) (err error) {
		servers[i], err = c.connect(ctx, n)
		return err
	})
	return servers, err
}

// each calls f with all items at the same time, and returns the first error.
func each[T any](items []T, f func(int, T) error) error {
	errs := make([]error, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { errs[i] = f(i, item) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// At returns the server that has a key, or nil if c does not know it or has not connected to it yet.
func (c *Cluster) At(key string) *epoch.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.owners[c.slot(key)]; n != nil {
		return n.now()
	}
	return nil
}

// Has reports whether the server of a Conn has a key.
func (c *Cluster) Has(at *conn.Conn, key string) bool {
	s := c.At(key)
	return s != nil && s.Conn == at
}

// Close stops the goroutines of the Cluster, and closes the Servers.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.cancel()
	nodes := c.servers
	c.servers = nil
	c.mu.Unlock()
	var late []*node
	for _, n := range nodes {
		if s := n.now(); s != nil {
			s.Close() // ends the requests for which goroutines of c.work wait
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
