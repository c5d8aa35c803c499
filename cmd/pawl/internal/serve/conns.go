// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
)

const (
	maxStrangers = 128 // connections without a request that had the token
	maxFriends   = 128 // connections with such a request
)

// conns are the connections of a server. Many strangers cannot keep out friends, nor newer strangers: if there
// are too many strangers, Accept closes the oldest stranger of the address that has the most.
type conns struct {
	net.Listener

	mu        sync.Mutex
	strangers []*conn // in the order in which they came
	friends   []*conn
}

// conn is a connection of conns. If conns has it neither as stranger nor as friend, it is being closed.
type conn struct {
	net.Conn
	of   *conns
	host string // the other end
}

// Accept implements net.Listener.
func (cs *conns) Accept() (net.Conn, error) {
	c, err := cs.Listener.Accept()
	if err != nil {
		return nil, err
	}
	added := &conn{Conn: c, of: cs, host: hostName(c.RemoteAddr().String())}
	if most := cs.add(added); most != nil {
		most.Close()
	}
	return added, nil
}

// add adds c as a stranger, and returns the connection to close, or nil. It has forgotten that connection,
// which must not become a friend before it is closed.
func (cs *conns) add(c *conn) *conn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.strangers = append(cs.strangers, c)
	if len(cs.strangers) <= maxStrangers {
		return nil
	}
	count := map[string]int{}
	for _, s := range cs.strangers {
		count[s.host]++
	}
	most := cs.strangers[0]
	for _, s := range cs.strangers {
		if count[s.host] > count[most.host] {
			most = s
		}
	}
	cs.forget(most)
	return most
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// forget removes c from strangers and friends. The caller holds mu.
func (cs *conns) forget(c *conn) {
	is := func(other *conn) bool { return other == c }
	cs.strangers, cs.friends = slices.DeleteFunc(cs.strangers, is), slices.DeleteFunc(cs.friends, is)
}

// befriend makes c a friend, because a request on c had the token. It returns false if there are too
// many friends, or if c is being closed.
func (c *conn) befriend() bool {
	cs := c.of
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case slices.Contains(cs.friends, c):
		return true
	case !slices.Contains(cs.strangers, c) || len(cs.friends) >= maxFriends:
		return false
	}
	cs.forget(c)
	cs.friends = append(cs.friends, c)
	return true
}

// connKey is the key of a request's *conn in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// welcome reports whether to answer a request that had the token. It makes the request's connection a friend.
func welcome(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*conn)
	return !ok || c.befriend()
}
