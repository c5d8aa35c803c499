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

// Dial makes a client, and returns at the latest when ctx ends. If the client could not
// connect, Dial may return it together with the error: the client tries again with each
// request.
func (p *Place) Dial(ctx context.Context) (rueidis.Client, error) {
	return dialWith(ctx, p.client)
}

// Clustered reports whether the URL is certainly for a cluster: it has several addresses, and no sentinels.
func (p *Place) Clustered() bool { return p.client.Sentinel.MasterSet == "" && len(p.more) > 0 }

// Nodes returns the Nodes of a cluster.
func (p *Place) Nodes() (Nodes, error) {
	if p.client.SelectDB != 0 {
		return nil, fmt.Errorf("a cluster has database 0 only, not %d: leave the number out", p.client.SelectDB)
	}
	return placeNodes{p}, nil
}

// Nodes makes clients of the nodes of a cluster.
type Nodes interface {
	// Dial returns a client of the node at addr. As with Place.Dial, there may be a client and an error.
	Dial(ctx context.Context, addr string) (rueidis.Client, error)
	// First returns the addresses of some nodes, with which to begin.
	First() []string
}

type placeNodes struct{ *Place }

func (p placeNodes) First() []string { return p.client.InitAddress }

// Dial makes a client of one node. With TLS it expects the node's own name in the
// certificate, unless the URL or the options have a server name for all nodes.
func (p placeNodes) Dial(ctx context.Context, addr string) (rueidis.Client, error) {
	opt := p.client
	opt.InitAddress = []string{addr}
	p.ask(&opt, addr)
	if opt.TLSConfig != nil && (p.TLS == nil || p.TLS.ServerName == "") {
		opt.TLSConfig = opt.TLSConfig.Clone()
		opt.TLSConfig.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return dialWith(ctx, opt)
}

// NodesOf returns the Nodes of a cluster client that the caller has made.
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

// sentinels is the Resolver of the dialer for sentinels. dial recognizes that dialer by
// it: a Contact does not record connections to sentinels. It resolves names as a nil
// Resolver does.
var sentinels = &net.Resolver{}

// dial makes a connection. An addr that begins with / is the path of a socket.
func (c *Contact) dial(ctx context.Context, addr string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	making := c.begin()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(making, cancel)()
	if d.Timeout > 0 { // for dialing and the TLS handshake together
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, d.Timeout)
		defer end()
	}
	connect := d.DialContext
	if c.own != nil {
		connect, conf = c.own, nil
	}
	conn, err := connect(ctx, network, addr)
	if err == nil && conn == nil {
		err = errNoConn
	}
	if err == nil && conf != nil {
		conn, err = shakeHands(ctx, conn, conf, addr)
	}
	if err != nil {
		return nil, dialError{err}
	}
	spare := context.AfterFunc(making, func() { conn.Close() })
	if d.Resolver == sentinels {
		return &heardConn{Conn: conn, spare: spare}, nil
	}
	n := c.conns.Add(1)
	c.keep(n, conn)
	// After conns.Add, as from then on the other connections raise left themselves.
	raise(&c.left, c.heard.Load())
	return &heardConn{Conn: conn, c: c, n: n, spare: spare}, nil
}

var errNoConn = errors.New("the function Dial has returned neither a connection nor an error")

// errNoTLS is the error if a server is silent after the first message of TLS. A server
// without TLS takes the message for the beginning of a command, and waits for the rest.
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
