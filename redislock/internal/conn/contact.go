// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
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

// heardConn is a connection that records in a Contact when it gets data, and when it ends.
type heardConn struct {
	net.Conn
	c *Contact
	n int64 // number, from 1
}

func (h heardConn) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if n > 0 {
		now := int64(driver.Now())
		h.c.heard.Store(now)
		if h.n != h.c.conns.Load() {
			raise(&h.c.left, now)
		}
	}
	if err != nil {
		h.c.breaks.Add(1)
	}
	return n, err
}

// Write yields first if other requests are under way, so that they join this write. rueidis
// writes the waiting requests of all callers together. But the first request wakes the
// writer, and without the yield the writer runs before the second request is there. Then each
// request would cost a system call, here and in the server. Batches do not count as other
// requests: while the server works on one batch, goroutines make the next.
func (h heardConn) Write(b []byte) (int, error) {
	if h.c.busy.Load()-h.c.batches.Load() > 1 && h.c.yield.Now() {
		h.c.yield.Rest()
	}
	return h.Conn.Write(b)
}

func (h heardConn) Close() error {
	h.c.forget(h.n)
	h.c.breaks.Add(1)
	return h.Conn.Close()
}

// raise sets n to to if n is less.
func raise(n *atomic.Int64, to int64) {
	for now := n.Load(); now < to && !n.CompareAndSwap(now, to); now = n.Load() {
	}
}
