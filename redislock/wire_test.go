// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// TestEfficientWire checks the wire of Mode Efficiency on a server.
func TestEfficientWire(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	opts := efficiently()
	opts.MaxTTL = time.Hour
	links := make(map[driver.Store]*drivertest.Link)
	set := func(s driver.Store, f drivertest.Fault) { links[s].Set(f) }
	wiretest.Run(t, wiretest.Harness{
		Golden: "testdata/wire-efficiency.txt",
		Start: func(testing.TB) wiretest.Service {
			return wiretest.Service{
				Open: func(t testing.TB) driver.Store {
					link := drivertest.NewLink(t, r.Addr)
					d, err := NewStore(context.Background(), "redis://"+link.Addr(), opts)
					if err != nil {
						t.Fatal(err)
					}
					links[d] = link
					return d
				},
				Cut:  func(_ testing.TB, s driver.Store) { set(s, drivertest.BlackHole) },
				Heal: func(_ testing.TB, s driver.Store) { set(s, drivertest.Healthy) },
			}
		},
	})
}
