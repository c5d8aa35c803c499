// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/pawl-go/pawl/driver"
)

// Contact records when the connections that were made for a Place got data from their
// server. A Contact for several servers knows less, but nothing wrong.
type Contact struct {
	conns atomic.Int64 // how many were made
	heard atomic.Int64 // driver.Instant of the last byte
	left  atomic.Int64 // of the last byte on connections before the last one
	// breaks counts the ends of connections: Read returns an error, or Close is called,
	// before rueidis makes another one.
	breaks  atomic.Int64
	busy    atomic.Int64 // requests under way
	batches atomic.Int64 // those among them that are of many requests
	yield   Yield

	// own makes the connections, with TLS if that is needed; nil for a net.Dialer.
	own func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex      // guards the fields below
	making context.Context // of what is being connected; nil if nothing was since GiveUp
	giveUp context.CancelFunc
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
		go conn.Close() // with TLS it may take a while
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

// GiveUp ends what is being connected: dials, and connections on which nothing has come
// yet, as a server that hangs accepts them and is silent. Others go on, and later ones
// are made as before.
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

type heardConn struct {
	net.Conn
	c *Contact
	n int64 // it is the nth
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

// Write yields to other callers first if there are any. rueidis writes the requests of
// all callers together, but the first request wakes its writer, which runs before the
// second is there: each would cost a system call, here and in the server. Batches are
// written at once: while the server works on one the next is made.
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

// raise makes n at least as large as to.
func raise(n *atomic.Int64, to int64) {
	for now := n.Load(); now < to && !n.CompareAndSwap(now, to); now = n.Load() {
	}
}
