// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// Dial makes a client, and returns when ctx ends. It may return a client together with
// an error: a client that could not connect tries again with every request.
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

// Nodes makes clients of nodes.
type Nodes interface {
	// Dial returns a client of the node at addr, whether it can connect or not.
	Dial(ctx context.Context, addr string) (rueidis.Client, error)
	// First returns addresses of some nodes.
	First() []string
}

type placeNodes struct{ *Place }

func (p placeNodes) First() []string { return p.client.InitAddress }

// Dial makes a client of one node. The name in the node's certificate is its own,
// unless the URL or the configuration has one for all.
func (p placeNodes) Dial(ctx context.Context, addr string) (rueidis.Client, error) {
	opt := p.client
	opt.InitAddress = []string{addr}
	p.ask(&opt, addr)
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

// sentinels marks the dialer of the connections to sentinels, which say nothing about
// contact with the server. It resolves names as a dialer without a resolver does.
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
	dial := d.DialContext
	if c.own != nil {
		dial, conf = c.own, nil
	}
	conn, err := dial(ctx, network, addr)
	if err == nil && conn == nil {
		err = errNoConn
	}
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
	// In this order: other connections record later bytes themselves.
	raise(&c.left, c.heard.Load())
	return heardConn{&refusable{Conn: conn, first: spare}, c, n}, nil
}

var errNoConn = errors.New("the function Dial has returned neither a connection nor an error")

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
