// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
)

// turns counts how often a connection waits for an answer.
type turns struct {
	net.Conn
	mu    sync.Mutex
	n     int
	waits bool
	binds bool // scripts were loaded over it
}

func (c *turns) Write(b []byte) (int, error) {
	c.mu.Lock()
	if !c.waits && !strings.Contains(string(b), "PING") { // which ends a connection
		c.n++
	}
	c.waits, c.binds = true, c.binds || strings.Contains(string(b), "SCRIPT")
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *turns) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = c.waits && n == 0
	return n, err
}

// TestCostOfOpen: to open a client whose scripts the server has takes six commands in three
// round trips. If it lacks some, these are loaded together. Each connection takes one round
// trip at its beginning.
func TestCostOfOpen(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	r.do("script", "flush")
	const at = "info, script load, script load, evalsha, evalsha, script exists"
	all := at + strings.Repeat(", script load", len(scripts)+1)
	for i, want := range []string{all, at, at} {
		var mu sync.Mutex
		var conns []*turns
		opts := longOptions()
		opts.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, &turns{Conn: c})
			return conns[len(conns)-1], nil
		}
		got, err := r.Commands(func() { open(t, r.url(), opts) })
		if err != nil || strings.Join(got, ", ") != want {
			t.Errorf("client %d: %v, %v; want %s", i, got, err, want)
		}
		mu.Lock()
		for _, c := range conns {
			c.mu.Lock()
			if c.binds && want == at && c.n != 1+3 {
				t.Errorf("client %d: %d round trips; want 1, and 3", i, c.n)
			}
			c.mu.Unlock()
		}
		mu.Unlock()
	}
}
