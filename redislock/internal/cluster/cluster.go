// SPDX-License-Identifier: Apache-2.0

// Package cluster routes requests to the masters of a Redis Cluster: which one has a hash slot, where
// that is now if it has moved, and where its messages are heard.
package cluster

import (
	"context"
	"errors"
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

// Cluster is the masters of a Redis Cluster. Each is a Server of its own, with its own
// connection, scripts and run, so that one that hangs does not hold up the others. This
// package routes keys, and not the client: scripts belong to one run of one node, and
// must be called by the names that they have there.
type Cluster struct {
	conf  epoch.Config // of the Servers
	nodes conn.Nodes

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // subscriptions, and what is done in the background

	mu            sync.Mutex // guards the fields below
	owners        [epoch.SlotCount]*node
	servers       map[string]*node          // by address
	subscriptions map[int]*slotSubscription // by slot
	watching      bool                      // the nodes with subscriptions are watched
	asking        *survey                   // under way, or the last one
}

// New returns the Cluster that some nodes belong to. It sends nothing.
func New(nodes conn.Nodes, conf epoch.Config) *Cluster {
	c := &Cluster{conf: conf, nodes: nodes, servers: make(map[string]*node), subscriptions: make(map[int]*slotSubscription)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.conf.Slots = c
	return c
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
func (c *Cluster) EpochKey(key string) string { return c.epochKey(slotOf(key)) }

// FloorKey is the key of the floor of the tokens of a lock: one for each slot.
func (c *Cluster) FloorKey(key string) string {
	return c.conf.Prefix + "token:{" + slotTag(slotOf(key)) + "}"
}

// Has reports whether a key is in a server that has answered, as far as is known.
func (c *Cluster) Has(s *epoch.Server, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.owners[slotOf(key)]
	return n != nil && n.now() == s
}

// Close is as Server.Close.
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
