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

// TestWire has one server for all checks but those that restart theirs.
func TestWire(t *testing.T) {
	t.Parallel()
	wiretest.Run(t, harness(suiteTTL))
}

// harness is for leases of ttl.
func harness(ttl time.Duration) wiretest.Harness {
	return wiretest.Harness{
		Start: func(t testing.TB) wiretest.Service {
			var s *server
			if strings.Contains(t.Name(), "restart") {
				s = startServer(t)
			} else {
				s = sharedServer(t)
			}
			service := drivertest.OverLinks(s.Addr, func(t testing.TB, addr string) driver.Store {
				st, err := connect(context.Background(), "zk://"+addr, options(ttl))
				if err != nil {
					t.Fatal(err)
				}
				return st
			})
			service.Restart = func(testing.TB) { s.restart(t) }
			service.Left = func(t testing.TB, prefix string) []string { return left(t, s, prefix) }
			return service
		},
		TTL:      ttl,
		Parallel: true,
	}
}

// TestClients runs real clients on a server.
func TestClients(t *testing.T) {
	t.Parallel()
	wiretest.RunClients(t, drivertest.ClientsOf(t, sharedServer(t).Addr, func(addr string) (*pawl.Client, error) {
		return Open(t.Context(), "zk://"+addr, options(20*time.Second))
	}))
}
