// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// links makes the connections of a client, and closes dead ones that report no error.
type links struct {
	mu    sync.Mutex
	conns map[*link]bool
}

// link is a connection that records when it was last used.
type link struct {
	net.Conn
	links   *links
	written atomic.Int64 // driver.Instant of the last write
	heard   atomic.Int64 // driver.Instant of the last read
}

func (l *links) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &link{Conn: conn, links: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	return c, nil
}

// silence is the least time that a request waits before its connection counts as dead.
const silence = 500 * time.Millisecond

// late closes dead connections after a request has timed out that was sent at the instant sent. A connection is
// dead if the client has written to it since and has read nothing.
func (l *links) late(sent driver.Instant) {
	if l == nil || driver.Now().Sub(sent) < silence {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if driver.Instant(c.written.Load()) >= sent && driver.Instant(c.heard.Load()) < sent {
			go c.Close()
		}
	}
}

func (c *link) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.heard.Store(int64(driver.Now()))
	return n, err
}

func (c *link) Write(b []byte) (int, error) {
	c.written.Store(int64(driver.Now()))
	return c.Conn.Write(b)
}

func (c *link) Close() error {
	c.links.mu.Lock()
	delete(c.links.conns, c)
	c.links.mu.Unlock()
	return c.Conn.Close()
}
