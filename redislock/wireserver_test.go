// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

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

// driverTTL is that of Options, from which follows how long a request may take. The suite asks for
// leases with TTLs of its own.
const driverTTL = 10 * time.Second

func wireOptions(maxTTL time.Duration) *Options {
	return &Options{MaxTTL: maxTTL, ConnectTimeout: slowConnect, Options: pawl.Options{TTL: min(driverTTL, maxTTL)}}
}

// TestWire has one server for all checks but those that restart theirs.
func TestWire(t *testing.T) {
	t.Parallel()
	shared := wireService(t, time.Minute)
	const recovery = 10 * time.Second
	wiretest.Run(t, wiretest.Harness{
		Start: func(t testing.TB) wiretest.Service {
			if strings.Contains(t.Name(), "restart") {
				return wireService(t, recovery)
			}
			return shared
		},
		Recovery: recovery,
		Parallel: true,
	})
}

// wireService starts a server for leases of at most maxTTL.
func wireService(t testing.TB, maxTTL time.Duration) wiretest.Service {
	opts := wireOptions(maxTTL)
	s := startServer(t)
	bless(t, s.url(), opts)
	service := drivertest.OverLinks(s.Addr, func(t testing.TB, addr string) driver.Store {
		st, _, err := connect(context.Background(), "redis://"+addr, opts)
		must(t, err)
		return st
	})
	service.Restart = func(testing.TB) { s.restart() }
	service.Late = func(t testing.TB, w driver.Store, r *driver.Request) {
		_, _ = w.Ask(t.Context(), r) // it may fail
	}
	service.Left = func(_ testing.TB, prefix string) []string { return s.left(prefix) }
	return service
}

// TestClients runs real clients on a server.
func TestClients(t *testing.T) {
	t.Parallel()
	opts := &Options{MaxTTL: time.Minute, ConnectTimeout: slowConnect}
	s := startServer(t)
	bless(t, s.url(), opts)
	wiretest.RunClients(t, drivertest.ClientsOf(t, s.Addr, func(addr string) (*pawl.Client, error) {
		return Open(t.Context(), "redis://"+addr, opts)
	}))
}
