// SPDX-License-Identifier: Apache-2.0

// Package conn connects to one Redis server. It parses URLs, makes rueidis return when a
// context ends, keeps subscriptions up, and explains errors.
package conn

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Conn is a client of one server, with the state of its connections.
//
// While a request waits for its answer, rueidis watches the context of the request. In
// two other waits it does not: while another caller makes the connection, and while the
// ring (the queue of requests without an answer) is full. So Do gives a request a
// goroutine of its own if it may meet one of these waits. When the context ends, Do
// returns and leaves the goroutine behind.
//
// A request needs no goroutine if an earlier request was answered, and since then no
// connection has ended and no request was given up. Then there is a connection, and the
// ring contains only the requests under way, since answers come in order. One race
// remains, between this check and the entry of the request into the ring: if just then
// the connection ends, or dozens of other requests enter, rueidis may notice the end of
// the context late. The delay is at most the time for making a connection, or for finding
// out that a connection is dead.
type Conn struct {
	Client  rueidis.Client
	contact *Contact // nil if the caller has made the client

	failed atomic.Int64 // requests that got no answer
	clear  atomic.Int64 // the value of troubles at the last answered request, plus 1; 0 if there was none
}

// ringScale is the base 2 logarithm of the places in the ring of each connection. rueidis
// allocates all places when it connects: 340 bytes each, in four allocations. With its
// default of 1024 places, that was most of the cost of a connection.
const ringScale = 8

// maxDirect is how many requests may be under way for a request to go without a goroutine. It
// leaves room in the ring for requests with a goroutine.
const maxDirect = 3 << ringScale / 4

// New returns the Conn of a client. contact comes from the client's Place, or is nil.
func New(client rueidis.Client, contact *Contact) *Conn {
	return &Conn{Client: client, contact: contact}
}

// troubles counts the ends of connections, and the requests without an answer. Call it only if
// c.contact is not nil.
func (c *Conn) troubles() int64 { return c.contact.breaks.Load() + c.failed.Load() }

// Do sends a command. It returns when ctx ends.
func (c *Conn) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	if c.contact != nil && c.contact.busy.Load() < maxDirect && c.clear.Load() == c.troubles()+1 {
		return c.do(ctx, cmd)
	}
	answer := make(chan rueidis.RedisResult, 1)
	go func() { answer <- c.do(ctx, cmd) }()
	select {
	case res := <-answer:
		return res
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}

// DoBatch sends a command that carries a batch of requests. It may return some time after ctx has
// ended. Its write does not wait for other requests; see heardConn.Write.
func (c *Conn) DoBatch(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if c.contact != nil {
		c.contact.batches.Add(1)
		defer c.contact.batches.Add(-1)
	}
	return c.do(ctx, cmd)
}

func (c *Conn) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if c.contact == nil {
		return c.Client.Do(ctx, cmd)
	}
	c.contact.busy.Add(1)
	defer c.contact.busy.Add(-1)
	troubles := c.troubles()
	res := c.Client.Do(ctx, cmd)
	if res.NonRedisError() != nil {
		c.failed.Add(1)
	} else if clear := troubles + 1; c.clear.Load() != clear && c.troubles() == troubles {
		c.clear.Store(clear)
	}
	return res
}

// DoMulti sends several commands and returns as many results, or ctx's error.
func (c *Conn) DoMulti(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	answer := make(chan []rueidis.RedisResult, 1)
	go func() { answer <- c.Client.DoMulti(ctx, cmds...) }() // a goroutine, because rueidis may not watch ctx; see Conn
	select {
	case replies := <-answer:
		return replies, nil
	case <-ctx.Done():
		c.failed.Add(1)
		return nil, ctx.Err()
	}
}

// Made returns how many connections were made; 0 if the caller has made the client.
func (c *Conn) Made() int64 {
	if c.contact == nil {
		return 0
	}
	return c.contact.conns.Load()
}

// Left returns when the last byte arrived on the connections before the present one, if more
// than n connections were made. Otherwise it returns now.
func (c *Conn) Left(n int64) driver.Instant {
	if c.contact != nil && c.contact.conns.Load() > n {
		return driver.Instant(c.contact.left.Load())
	}
	return driver.Now()
}

// Ours reports whether this package makes the connections, so that Drop may close them. It
// does not if the caller has made the client.
func (c *Conn) Ours() bool { return c.contact != nil }

// Drop closes the first n connections. Use it only if Ours.
func (c *Conn) Drop(n int64) { c.contact.drop(n) }

// Close gives up connecting, and closes the client.
func (c *Conn) Close() {
	if c.contact != nil {
		c.contact.GiveUp()
	}
	c.Client.Close()
}

// heardConn is a connection that records in a Contact when it gets data, and when it ends. If the server has too many
// clients and refuses the connection, Read returns errTooMany: rueidis sends several commands at once, and would
// otherwise only report that they got no answer.
type heardConn struct {
	net.Conn
	c     *Contact    // nil for a connection to a sentinel
	n     int64       // number, from 1
	heard bool        // a byte has arrived
	spare func() bool // spares the connection from Contact.GiveUp
}

var errTooMany = errors.New("max number of clients reached")

func (h *heardConn) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if n > 0 && !h.heard {
		h.heard = true
		h.spare()
		if bytes.HasPrefix(b[:n], []byte("-ERR "+errTooMany.Error())) {
			n, err = 0, dialError{errTooMany}
		}
	}
	if h.c == nil {
		return n, err
	}
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
func (h *heardConn) Write(b []byte) (int, error) {
	if h.c != nil && h.c.busy.Load()-h.c.batches.Load() > 1 && h.c.yield.Now() {
		h.c.yield.Rest()
	}
	return h.Conn.Write(b)
}

func (h *heardConn) Close() error {
	h.spare()
	if h.c != nil {
		h.c.forget(h.n)
		h.c.breaks.Add(1)
	}
	return h.Conn.Close()
}
