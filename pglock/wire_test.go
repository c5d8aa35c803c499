// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

func TestWire(t *testing.T) {
	t.Parallel()
	wiretest.Run(t, harness())
}

func harness() wiretest.Harness {
	return wiretest.Harness{
		Start: func(t testing.TB) wiretest.Service {
			p := server(t)
			if strings.Contains(t.Name(), "restart") {
				p = servers.StartPostgres(t)
			}
			service := drivertest.OverLinks(p.Addr, func(t testing.TB, addr string) driver.Store {
				s, err := NewStore(context.Background(), urlOf(addr), &Options{MaxTTL: wide.MaxTTL, ConnectTimeout: patience})
				must(t, err)
				t.Cleanup(func() { s.Close() })
				return s
			})
			service.Restart = func(t testing.TB) {
				if err := p.Restart(); err != nil {
					t.Error(err)
				}
			}
			service.Late = func(t testing.TB, s driver.Store, r *driver.Request) { s.Ask(t.Context(), r) }
			service.Left = func(t testing.TB, prefix string) []string { return left(t, p, prefix) }
			return service
		},
		TTL:      5 * time.Second,
		Parallel: true,
	}
}

// left returns what the store keeps of names that begin with prefix, but for the row
// with the last token and, for a while, tombstones.
func left(t testing.TB, p *servers.Postgres, prefix string) []string {
	return strings.Fields(sql(t, p, strings.ReplaceAll(`SELECT 'lock ' || name FROM pawl.lock WHERE starts_with(name, 'PREFIX') AND (lease IS NOT NULL OR sharers > 0 OR waiters > 0)
		UNION ALL SELECT 'sharer ' || name FROM pawl.sharer WHERE starts_with(name, 'PREFIX')
		UNION ALL SELECT 'waiter ' || name FROM pawl.waiter WHERE starts_with(name, 'PREFIX')`, "PREFIX", prefix)))
}

// TestClients: clients, package participant and this wire fit together.
func TestClients(t *testing.T) {
	t.Parallel()
	wiretest.RunClients(t, drivertest.ClientsOf(t, server(t).Addr, func(addr string) (*pawl.Client, error) {
		return Open(context.Background(), "postgres://pawl@"+addr+"/postgres?sslmode=disable", wide)
	}))
}
