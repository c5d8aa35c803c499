// SPDX-License-Identifier: Apache-2.0

// Package conn is the connection to one Redis server: where a URL leads and how that is
// dialled, what rueidis lacks, subscriptions that are kept up, and what errors mean.
package conn

import (
	"context"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Conn is a client of one server, with what is known of the way there.
//
// rueidis looks at the context of a request that waits for its answer. There are two
// things that it waits for without: a connection that another caller is making, and,
// if a ring of 1024 requests without an answer is full, room in it. So a request that
// may meet one of them has a goroutine of its own, which is left behind when its
// context ends.
//
// The others do without. They have been preceded by one that was answered, after
// which no connection has ended and no request was given up: so there is a connection,
// and as answers come in order, nothing is in the ring but what is under way now. If
// the connection ends, or hundreds of other requests come, in the very instant
// between that look and the request's way into the ring, the context may be looked
// at late: by what making a connection may take, or finding out that one is dead.
type Conn struct {
	Client  rueidis.Client
	contact *Contact // nil if the client is the caller's

	failed atomic.Int64 // requests that have had no answer
	clear  atomic.Int64 // troubles before one that was answered, and 1; 0: there was none
}

// maxDirect leaves room in the ring for what has a goroutine, and for the rest.
const maxDirect = 768

// New returns the Conn of a client. contact is that of the client's Place, or nil.
func New(client rueidis.Client, contact *Contact) *Conn {
	return &Conn{Client: client, contact: contact}
}

// troubles counts what may be in the way of requests. Of the connections of a client
// that is not ours nothing is known.
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

// Left returns when the connections before the last one were heard of last, if any was made
// after the first n; or else now.
func (c *Conn) Left(n int64) driver.Instant {
	if c.contact != nil && c.contact.conns.Load() > n {
		return driver.Instant(c.contact.left.Load())
	}
	return driver.Now()
}

// Ours reports whether the connections may be dropped: a client of the caller's is not ours.
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
