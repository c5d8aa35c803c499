// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// links makes the connections of a client. It remembers why the last one could not
// be made, which the client does not tell, and closes those that are dead although
// nothing says so.
type links struct {
	mu    sync.Mutex
	err   error
	conns map[*link]bool
}

// link is a connection that knows when it was heard of last.
type link struct {
	net.Conn
	links   *links
	written atomic.Int64 // driver.Instant of the last write
	heard   atomic.Int64 // and of the last read
}

func (l *links) dial(ctx context.Context, addr string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if ctx.Err() != context.Canceled {
			l.err = err
		}
		return nil, err
	}
	l.err = nil
	c := &link{Conn: conn, links: l}
	if l.conns == nil {
		l.conns = make(map[*link]bool)
	}
	l.conns[c] = true
	return c, nil
}

// lastError returns why the last connection could not be made, or nil.
func (l *links) lastError() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// silence is how long a request must have waited to say anything about the
// connection.
const silence = 500 * time.Millisecond

// late is told that a request has run out of time. It closes the connections that
// have not been heard of since that was sent, though something was written.
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
