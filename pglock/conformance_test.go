// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// linked is a participant with a link that can be cut.
type linked struct {
	*client
	link *drivertest.Link
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, link *drivertest.Link, opts *Options) *linked {
	t.Helper()
	d, err := NewDriver(context.Background(), "postgres://pawl@"+link.Addr()+"/postgres?sslmode=disable", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return &linked{clientOf(d), link}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, harness(wide))
}

func harness(opts *Options) drivertest.Harness {
	// A server forks for each connection, which takes its time on a busy machine.
	patient := *opts
	patient.ConnectTimeout = patience
	opts = &patient
	return drivertest.Harness{
		Start: func(t testing.TB) drivertest.Store {
			var p *servers.Postgres
			if strings.Contains(t.Name(), "restart") {
				p = servers.StartPostgres(t)
			} else {
				p = server(t)
			}
			return drivertest.Store{
				Open: func(t testing.TB) driver.Driver { return openThrough(t, drivertest.NewLink(t, p.Addr), opts) },
				Late: func(t testing.TB, late time.Duration) driver.Driver {
					return openThrough(t, drivertest.SlowTo(t, p.Addr, late), opts)
				},
				Crash: func(_ testing.TB, d driver.Driver) { d.(*linked).link.Close() },
				Restart: func(t testing.TB) {
					if err := p.Restart(); err != nil {
						t.Error(err)
					}
				},
				Cut:  func(_ testing.TB, d driver.Driver) { d.(*linked).link.Set(drivertest.BlackHole) },
				Heal: func(_ testing.TB, d driver.Driver) { d.(*linked).link.Set(drivertest.Healthy) },
				Left: func(t testing.TB, prefix string) []string { return left(t, p, opts, prefix) },
			}
		},
		Slack:     2 * time.Second,
		Histories: 8,
		Parallel:  true,
	}
}

// left returns what the store keeps of names that begin with prefix, but for the row
// with the last token and, for a while, tombstones.
func left(t testing.TB, p *servers.Postgres, opts *Options, prefix string) []string {
	out := sql(t, p, strings.ReplaceAll(`SELECT 'lock ' || name FROM pawl.lock WHERE starts_with(name, '`+prefix+`') AND (lease IS NOT NULL OR sharers > 0 OR waiters > 0)
		UNION ALL SELECT 'sharer ' || name FROM pawl.sharer WHERE starts_with(name, '`+prefix+`')
		UNION ALL SELECT 'waiter ' || name FROM pawl.waiter WHERE starts_with(name, '`+prefix+`')`, "pawl.", quote(cmp.Or(opts.Schema, defaultSchema))+"."))
	return strings.Fields(out)
}
