// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

const suiteTTL = 5 * time.Second

func options(ttl time.Duration) *Options {
	o := &Options{TickTime: tick}
	o.TTL = ttl
	return o
}

// TestWire has one server for all checks but those that restart theirs.
func TestWire(t *testing.T) {
	t.Parallel()
	wiretest.Run(t, wiretest.Harness{
		Start: func(t testing.TB) wiretest.Service {
			var s *server
			if strings.Contains(t.Name(), "restart") {
				s = startServer(t)
			} else {
				s = sharedServer(t)
			}
			service := drivertest.OverLinks(s.Addr, func(t testing.TB, addr string) driver.Store {
				st, err := NewStore(context.Background(), "zk://"+addr, options(suiteTTL))
				must(t, err)
				return st
			})
			service.Restart = func(testing.TB) { s.restart(t) }
			service.Left = func(t testing.TB, prefix string) []string { return left(t, s, prefix) }
			return service
		},
		TTL:      suiteTTL,
		Parallel: true,
	})
}

// TestClients runs real clients on a server.
func TestClients(t *testing.T) {
	t.Parallel()
	wiretest.RunClients(t, drivertest.ClientsOf(t, sharedServer(t).Addr, func(addr string) (*pawl.Client, error) {
		return Open(t.Context(), "zk://"+addr, options(20*time.Second))
	}))
}

// left lists the nodes below those of names that begin with prefix.
func left(t testing.TB, s *server, prefix string) (nodes []string) {
	t.Helper()
	d := openURL(t, s.url(), time.Minute)
	defer d.Close()
	n, err := d.wire.inspectSession(t.Context())
	must(t, err)
	n.conn.Sync(d.wire.root)
	names, _, err := n.conn.Children(d.wire.root)
	must(t, err)
	for _, node := range names {
		if name, ok := decodeName(node); ok && strings.HasPrefix(name, prefix) {
			nodes = append(nodes, childrenOf(t, d, name)...)
		}
	}
	return nodes
}
