// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Dial makes a client without outstaying ctx. There can be a client and an error:
// if it could not connect it tries again with every request.
func (p *Place) Dial(ctx context.Context) (rueidis.Client, error) {
	type made struct {
		client rueidis.Client
		err    error
	}
	ch := make(chan made, 1)
	go func() {
		c, err := rueidis.NewClient(p.client)
		ch <- made{c, err}
	}()
	select {
	case m := <-ch:
		return m.client, m.err
	case <-ctx.Done():
		go func() {
			if m := <-ch; m.client != nil {
				m.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// Contact is when the connections that were made for a Place have heard of their
// server. One that is used for several servers knows less, but nothing wrong.
type Contact struct {
	conns atomic.Int64 // so many were made
	heard atomic.Int64 // driver.Instant of the last byte
	left  atomic.Int64 // of the last byte on connections before the last one
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
			h.c.left.Store(now)
		}
	}
	return n, err
}

// sentinels marks the dialer of the connections to sentinels, by which nothing is
// heard of the server. It resolves names as a dialer without a resolver does.
var sentinels = &net.Resolver{}

func (c *Contact) dial(ctx context.Context, addr string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
	var conn net.Conn
	var err error
	if conf != nil {
		conn, err = (&tls.Dialer{NetDialer: d, Config: conf}).DialContext(ctx, "tcp", addr)
	} else {
		conn, err = d.DialContext(ctx, "tcp", addr)
	}
	return c.made(conn, err, d)
}

func (c *Contact) dialUnix(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "unix", path)
	return c.made(conn, err, d)
}

func (c *Contact) made(conn net.Conn, err error, d *net.Dialer) (net.Conn, error) {
	if err != nil {
		return nil, dialError{err}
	}
	if d.Resolver == sentinels {
		return conn, nil
	}
	c.left.Store(c.heard.Load())
	return heardConn{conn, c, c.conns.Add(1)}, nil
}
