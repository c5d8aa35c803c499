// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

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

// suiteTTL is long enough for a busy machine. etcd counts in seconds, and looks for expired leases every half a second.
const suiteTTL = 5 * time.Second

// TestWire has one server for all checks but those that restart theirs.
func TestWire(t *testing.T) {
	t.Parallel()
	shared := startServer(t)
	opts := new(Options)
	opts.TTL = suiteTTL
	wiretest.Run(t, wiretest.Harness{
		Start: func(t testing.TB) wiretest.Service {
			m := shared
			if strings.Contains(t.Name(), "restart") {
				m = startServer(t)
			}
			service := drivertest.OverLinks(m.Addr, func(t testing.TB, addr string) driver.Store {
				d, err := NewStore(context.Background(), "etcd://"+addr, opts)
				must(t, err)
				return d
			})
			service.Restart = func(testing.TB) { m.restart() }
			service.Left = func(t testing.TB, prefix string) []string {
				d := openStore(t, m.url())
				defer d.Close()
				return keys(t, d, d.prefix+lockPart+escape(prefix))
			}
			return service
		},
		TTL:      suiteTTL,
		Parallel: true,
	})
}

// TestClients runs real clients on a server.
func TestClients(t *testing.T) {
	t.Parallel()
	wiretest.RunClients(t, drivertest.ClientsOf(t, startServer(t).Addr, func(addr string) (*pawl.Client, error) {
		return Open(t.Context(), "etcd://"+addr, nil)
	}))
}
