// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A client that comes to a run of a server from another one knows what the server
// does not: that leases were granted elsewhere. They may last for the longest TTL
// in use from when they could be got there last, so it makes the server close.
// Scripts are bound to a run, so no grant is made before that on a server that is
// new to the client, or new again.
//
// Every client that was there comes, one after the other, and one of them may
// have been cut off, or asleep, for an hour. So that it does not close the server
// again, it says when it heard of the other run last.

// moves is what a Server knows of the runs that it was with.
type moves struct {
	run   string // the present one; empty if there has been none
	count int    // of changes
	owed  bool   // the present one has not been told of the last change
	conns int64  // Contact's when it was told
}

// moved notes which run b is for, and reports whether the server must be told that
// this participant was with another one.
func (s *Server) moved(b *binding) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.moves
	if b.boot != "" && m.run != b.boot {
		m.owed = m.run != ""
		m.run = b.boot
		m.count++
	}
	b.move = m.count
	return m.owed
}

// arrived notes that the server has been told.
func (s *Server) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves.owed = false
	if s.Contact != nil {
		s.moves.conns = s.Contact.conns.Load()
	}
}

// stale returns why a reply to b's scripts is not to be believed, or nil: b was
// bound to a run that this participant has left in the meantime. If the request
// was executed by that run nevertheless, nobody has told it.
func (s *Server) stale(b *binding) *Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.move == s.moves.count {
		return nil
	}
	return &Failure{Err: fmt.Errorf("%w: the answer is from another run of the server", driver.ErrUncertain), Maybe: true}
}

// away returns when the run before a new connection was heard of last.
func (s *Server) away() driver.Instant {
	s.mu.Lock()
	known := s.moves.conns
	s.mu.Unlock()
	if c := s.Contact; c != nil && c.conns.Load() > known {
		// What is idle is pinged each second.
		return min(driver.Now(), driver.Instant(c.left.Load()).Add(2*time.Second))
	}
	return driver.Now()
}

// Contact is when the connections that were made for a Place have heard of their
// server. One that is used for several servers knows less, but nothing wrong.
type Contact struct {
	conns atomic.Int64 // so many were made
	heard atomic.Int64 // driver.Instant of the last byte
	left  atomic.Int64 // the same when the last connection was made
}

type heardConn struct {
	net.Conn
	c *Contact
}

func (h heardConn) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if n > 0 {
		h.c.heard.Store(int64(driver.Now()))
	}
	return n, err
}

// sentinels marks the dialer of the connections to sentinels, by which nothing is
// heard of the server. It resolves names as a dialer without a resolver does.
var sentinels = &net.Resolver{}

func (c *Contact) dial(ctx context.Context, addr string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
	var conn net.Conn
	var err error
	switch {
	case conf != nil:
		conn, err = (&tls.Dialer{NetDialer: d, Config: conf}).DialContext(ctx, "tcp", addr)
	default:
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
	c.conns.Add(1)
	return heardConn{conn, c}, nil
}
