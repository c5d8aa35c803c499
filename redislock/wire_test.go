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
	opts.MaxTTL, opts.ConnectTimeout = time.Hour, slowConnect
	wiretest.Run(t, wiretest.Harness{
		Golden: "testdata/wire-efficiency.txt",
		Start: func(testing.TB) wiretest.Service {
			return drivertest.OverLinks(r.Addr, func(t testing.TB, addr string) driver.Store {
				d, err := NewStore(context.Background(), "redis://"+addr, opts)
				must(t, err)
				return d
			})
		},
	})
}
