// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// wire is a store with a link that can be cut.
type wire struct {
	*store
	link *drivertest.Link
}

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
			return wiretest.Service{
				Open: func(t testing.TB) driver.Store {
					link := drivertest.NewLink(t, p.Addr)
					where, err := parseURL("postgres://pawl@"+link.Addr()+"/postgres?sslmode=disable", &Options{MaxTTL: wide.MaxTTL, ConnectTimeout: patience})
					if err != nil {
						t.Fatal(err)
					}
					s, err := newStore(context.Background(), where)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { s.Close() })
					return &wire{s, link}
				},
				Crash: func(_ testing.TB, s driver.Store) { s.(*wire).link.Close() },
				Restart: func(t testing.TB) {
					if err := p.Restart(); err != nil {
						t.Error(err)
					}
				},
				Cut:  func(_ testing.TB, s driver.Store) { s.(*wire).link.Set(drivertest.BlackHole) },
				Heal: func(_ testing.TB, s driver.Store) { s.(*wire).link.Set(drivertest.Healthy) },
				Late: func(t testing.TB, s driver.Store, r *driver.Request) { s.Ask(t.Context(), r) },
				Left: func(t testing.TB, prefix string) []string { return left(t, p, wide, prefix) },
			}
		},
		TTL:      5 * time.Second,
		Parallel: true,
	}
}

// TestClients: clients, package participant and this wire fit together.
func TestClients(t *testing.T) {
	t.Parallel()
	p := server(t)
	wiretest.RunClients(t, wiretest.Clients{
		Open: func(t testing.TB) *pawl.Client {
			c, err := Open(context.Background(), p.URL("pawl"), wide)
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Tx: func(t testing.TB) (any, func() error) {
			c, err := pgx.Connect(t.Context(), p.URL("pawl"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close(context.Background()) })
			tx, err := c.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return tx, func() error { return tx.Commit(context.Background()) }
		},
	})
}
