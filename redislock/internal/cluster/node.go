// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// node is the address of a Server. The Server connects when a caller first needs it.
type node struct {
	addr  string
	ready chan struct{} // closed when the two fields below are set
	srv   *epoch.Server
	err   error

	// Cluster.mu guards these.
	dialed bool           // dial was started
	used   driver.Instant // when the node last had a slot or a request
}

// at returns the node at an address. The caller holds c.mu.
func (c *Cluster) at(addr string) *node {
	n := c.servers[addr]
	if n == nil {
		n = &node{addr: addr, ready: make(chan struct{})}
		if c.ctx.Err() == nil {
			c.servers[addr] = n
		}
	}
	n.used = driver.Now()
	return n
}

func (c *Cluster) dial(n *node) {
	defer close(n.ready)
	client, err := c.nodes.Dial(c.ctx, n.addr)
	if client == nil {
		n.err = err
		c.forget(n)
		return
	}
	conf := c.conf
	conf.Addr = n.addr
	n.srv = epoch.New(client, conf)
	n.srv.Listen()
}

// forget removes a node, so that the next caller that needs it dials again.
func (c *Cluster) forget(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers[n.addr] == n {
		delete(c.servers, n.addr)
	}
	for slot, owner := range c.owners {
		if owner == n {
			c.owners[slot] = nil
		}
	}
}

// connect waits for the node's Server.
func (c *Cluster) connect(ctx context.Context, n *node) (*epoch.Server, error) {
	c.mu.Lock()
	if !n.dialed {
		n.dialed = true
		if !c.spawn(func() { c.dial(n) }) {
			n.err = driver.ErrClosed
			close(n.ready)
		}
	}
	c.mu.Unlock()
	select {
	case <-n.ready:
		return n.srv, n.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// now returns the Server, or nil if it has not connected yet.
func (n *node) now() *epoch.Server {
	select {
	case <-n.ready:
		return n.srv
	default:
		return nil
	}
}
