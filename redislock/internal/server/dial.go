// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
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
