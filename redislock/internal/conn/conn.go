// SPDX-License-Identifier: Apache-2.0

// Package conn is the connection to one Redis server: it reads and dials URLs, adds
// what rueidis lacks, keeps subscriptions up, and explains errors.
package conn

import (
	"context"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Conn is a client of one server, with what is known of its connections.
//
// rueidis looks at the context of a request while the request waits for its answer. It
// does not look at it in two other waits: for a connection that another caller is
// making, and for room in its ring of requests without an answer if that is full. So
// a request that may meet one of them has a goroutine of its own, which is left behind
// when its context ends.
//
// The others do without. Before them a request was answered, and since then no
// connection has ended and no request was given up. So there is a connection, and as
// answers come in order, the ring has only the requests that are under way now. If the
// connection ends, or dozens of other requests come, in the very instant between that
// check and the request's entry into the ring, rueidis may look at the context late:
// after the time that making a connection takes, or finding out that one is dead.
type Conn struct {
	Client  rueidis.Client
	contact *Contact // nil if the caller has made the client

	failed atomic.Int64 // requests that have had no answer
	clear  atomic.Int64 // troubles before the last request that was answered, plus 1; 0 if none was
}

// ringScale is the base 2 logarithm of the places in the ring of each connection. rueidis
// makes all of them when it connects, of 340 bytes each in four allocations; with its
// default, of 1024, that was the larger part of the cost of a connection.
const ringScale = 8

// maxDirect leaves room in the ring for requests with a goroutine and for others.
const maxDirect = 3 << ringScale / 4

// New returns the Conn of a client. contact comes from the client's Place, or is nil.
func New(client rueidis.Client, contact *Contact) *Conn {
	return &Conn{Client: client, contact: contact}
}

// troubles counts what may hold up requests. It knows nothing about the connections of
// a client that the caller has made.
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

// DoBatch sends a command that is a batch of requests. It may return after ctx has ended, and
// need not be sent together with other requests.
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
	go func() { answer <- c.Client.DoMulti(ctx, cmds...) }() // see Conn
	select {
	case replies := <-answer:
		return replies, nil
	case <-ctx.Done():
		c.failed.Add(1)
		return nil, ctx.Err()
	}
}

// Made returns how many connections have been made, as far as is known.
func (c *Conn) Made() int64 {
	if c.contact == nil {
		return 0
	}
	return c.contact.conns.Load()
}

// Left returns when the last byte came on connections before the last one, if any was
// made after the first n; otherwise now.
func (c *Conn) Left(n int64) driver.Instant {
	if c.contact != nil && c.contact.conns.Load() > n {
		return driver.Instant(c.contact.left.Load())
	}
	return driver.Now()
}

// Ours reports whether the connections may be dropped. If the caller has made the
// client, they may not.
func (c *Conn) Ours() bool { return c.contact != nil }

// Drop closes the connections that had been made when there were n.
func (c *Conn) Drop(n int64) { c.contact.drop(n) }

// Close gives up what is being connected and closes the client.
func (c *Conn) Close() {
	if c.contact != nil {
		c.contact.GiveUp()
	}
	c.Client.Close()
}
