// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Dial makes a client without outstaying ctx. There can be a client and an error:
// if it could not connect it tries again with every request.
func (p *Place) Dial(ctx context.Context) (rueidis.Client, error) {
	return dialWith(ctx, p.client)
}

// Clustered reports whether the URL can only be that of a cluster.
func (p *Place) Clustered() bool { return p.client.Sentinel.MasterSet == "" && len(p.more) > 0 }

// Nodes returns what makes clients of the nodes of a cluster.
func (p *Place) Nodes() (Nodes, error) {
	if p.client.SelectDB != 0 {
		return nil, fmt.Errorf("a cluster has database 0 only, not %d: leave the number out", p.client.SelectDB)
	}
	return placeNodes{p}, nil
}

type placeNodes struct{ *Place }

func (p placeNodes) First() []string { return p.client.InitAddress }

// Dial makes a client of one node. The name in the node's certificate is its own,
// unless the URL or the configuration has one for all.
func (p placeNodes) Dial(ctx context.Context, addr string) (rueidis.Client, error) {
	opt := p.client
	opt.InitAddress = []string{addr}
	if !strings.HasPrefix(addr, "/") {
		opt.DialCtxFn = p.Contact.dial
	}
	if opt.TLSConfig != nil && (p.TLS == nil || p.TLS.ServerName == "") {
		opt.TLSConfig = opt.TLSConfig.Clone()
		opt.TLSConfig.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return dialWith(ctx, opt)
}

// NodesOf returns the nodes of a client for a cluster.
func NodesOf(client rueidis.Client) Nodes { return clientNodes{client} }

type clientNodes struct{ client rueidis.Client }

func (c clientNodes) First() []string { return slices.Collect(maps.Keys(c.client.Nodes())) }

func (c clientNodes) Dial(_ context.Context, addr string) (rueidis.Client, error) {
	if node := c.client.Nodes()[addr]; node != nil {
		return node, nil
	}
	return nil, fmt.Errorf("the client does not know the node %s yet: make it with a ShardsRefreshInterval, or use Open", addr)
}

func dialWith(ctx context.Context, opt rueidis.ClientOption) (rueidis.Client, error) {
	type made struct {
		client rueidis.Client
		err    error
	}
	ch := make(chan made, 1)
	go func() {
		c, err := rueidis.NewClient(opt)
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
	// breaks counts the ends of connections: Read returns an error, or Close is called,
	// before rueidis makes another one.
	breaks atomic.Int64
	busy   atomic.Int64 // requests under way
	calls  atomic.Int64 // those among them that are of many requests
	alone  atomic.Int64 // driver.Instant until which nobody is let go first

	mu     sync.Mutex      // guards the fields below
	making context.Context // of what is being connected; nil if nothing was since GiveUp
	giveUp context.CancelFunc
	open   map[int64]net.Conn // by number
}

// Drop closes the connections that had been made when there were n.
func (c *Contact) Drop(n int64) {
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

// GiveUp ends what is being connected: dials, and connections by which nothing has been
// heard yet, as a server that hangs accepts them and is silent. Others go on, and later
// ones are made as before.
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

// Write lets others go first if there are any. rueidis writes the requests of all who
// call it together, but its writer is woken by the first and runs before the second: each
// would cost a system call, here and in the server. Calls of many requests go at once:
// while the server works on one the next is made. Among goroutines that keep the
// processors busy it may be long before it is the writer's turn again, so that is not
// tried again soon.
func (h heardConn) Write(b []byte) (int, error) {
	if h.c.busy.Load()-h.c.calls.Load() > 1 {
		if now := driver.Now(); now >= driver.Instant(h.c.alone.Load()) {
			runtime.Gosched()
			if then := driver.Now(); then.Sub(now) > longTurn {
				h.c.alone.Store(int64(then.Add(10 * longTurn)))
			}
		}
	}
	return h.Conn.Write(b)
}

// longTurn is more than hundreds of requests take to be made, and as long as a
// goroutine that computes has a processor.
const longTurn = 10 * time.Millisecond

func (h heardConn) Close() error {
	h.c.forget(h.n)
	h.c.breaks.Add(1)
	return h.Conn.Close()
}

// sentinels marks the dialer of the connections to sentinels, by which nothing is
// heard of the server. It resolves names as a dialer without a resolver does.
var sentinels = &net.Resolver{}

func (c *Contact) dial(ctx context.Context, addr string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
	return c.connect(ctx, "tcp", addr, d, conf)
}

func (c *Contact) dialUnix(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return c.connect(ctx, "unix", path, d, nil)
}

func (c *Contact) connect(ctx context.Context, network, addr string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
	making := c.begin()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(making, cancel)()
	if d.Timeout > 0 { // for all of it
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, d.Timeout)
		defer end()
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err == nil && conf != nil {
		conn, err = shakeHands(ctx, conn, conf, addr)
	}
	if err != nil {
		return nil, dialError{err}
	}
	if d.Resolver == sentinels {
		return &refusable{Conn: conn}, nil
	}
	spare := context.AfterFunc(making, func() { conn.Close() })
	n := c.conns.Add(1)
	c.keep(n, conn)
	// In this order: what others hear from now on they note themselves.
	raise(&c.left, c.heard.Load())
	return heardConn{&refusable{Conn: conn, first: spare}, c, n}, nil
}

// errNoTLS is the silence of a server after the first word of TLS. One without TLS
// takes it for the beginning of a command, and waits for the rest.
var errNoTLS = errors.New("the server does not answer in TLS")

func shakeHands(ctx context.Context, conn net.Conn, conf *tls.Config, addr string) (net.Conn, error) {
	if conf.ServerName == "" {
		conf = conf.Clone()
		conf.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, conf)
	err := secure.HandshakeContext(ctx)
	if err == nil {
		return secure, nil
	}
	conn.Close()
	if errors.Is(err, context.DeadlineExceeded) {
		err = errNoTLS
	}
	return nil, err
}

// raise makes n at least as large as to.
func raise(n *atomic.Int64, to int64) {
	for now := n.Load(); now < to && !n.CompareAndSwap(now, to); now = n.Load() {
	}
}
