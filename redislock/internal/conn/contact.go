// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// Contact makes the connections for a Place, and records when they got data from the
// server. The nodes of a cluster share a Contact, which then knows less about each node,
// but nothing wrong.
type Contact struct {
	conns atomic.Int64 // how many connections were made
	heard atomic.Int64 // driver.Instant of the last byte on any connection
	left  atomic.Int64 // driver.Instant of the last byte on a connection other than the newest
	// breaks counts failed Reads and calls of Close. When a connection ends, one of them
	// happens before rueidis makes another connection.
	breaks  atomic.Int64
	busy    atomic.Int64 // requests under way
	batches atomic.Int64 // how many of these are batches
	yield   Yield

	// own makes the connections, with TLS if needed; nil for a net.Dialer.
	own func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex         // guards the fields below
	making context.Context    // of connections that are being made; nil if there was none since GiveUp
	giveUp context.CancelFunc // ends making
	open   map[int64]net.Conn // by number
}

func (c *Contact) drop(n int64) {
	var old []net.Conn
	c.mu.Lock()
	for i, conn := range c.open {
		if i <= n {
			old = append(old, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range old {
		go conn.Close() // a goroutine, as closing TLS may take a while
	}
}

func (c *Contact) keep(n int64, conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[int64]net.Conn)
	}
	c.open[n] = conn
}

func (c *Contact) forget(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, n)
}

// GiveUp ends dials under way, and closes connections on which no byte has arrived yet: a
// server that hangs accepts connections, and then is silent. Other connections stay open.
// Later connections are possible.
func (c *Contact) GiveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.making != nil {
		c.giveUp()
		c.making = nil
	}
}

func (c *Contact) begin() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.making == nil {
		c.making, c.giveUp = context.WithCancel(context.Background())
	}
	return c.making
}

// raise sets n to to if n is less.
func raise(n *atomic.Int64, to int64) {
	for now := n.Load(); now < to && !n.CompareAndSwap(now, to); now = n.Load() {
	}
}
