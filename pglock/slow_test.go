// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestLeaseLivesOnASlowLink: a lease lives as long as the server answers within a sixth of the TTL. The requests
// that confirm it after messages may have been lost, and have a second each, cost no connection.
func TestLeaseLivesOnASlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	drivertest.SlowLink(t, server(t).Addr, ttl, ttl/6, func(addr string) (*pawl.Client, error) {
		return Open(context.Background(), "postgres://pawl@"+addr+"/postgres?sslmode=disable", &Options{Options: pawl.Options{TTL: ttl}, ConnectTimeout: patience})
	})
}

// TestSlowConnect: the time-out of a request counts from its sending, not from the connecting before it, which takes
// two round trips.
func TestSlowConnect(t *testing.T) {
	t.Parallel()
	const trip = 2 * time.Second
	link := drivertest.NewLink(t, server(t).Addr)
	d := openThrough(t, link, &Options{MaxTTL: wide.MaxTTL, ConnectTimeout: patience})
	g := take(t, d.client, "slow connect", time.Minute)
	link.Slow(trip / 2)
	d.wire.pool.drop(driver.Now())
	if _, err := g.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew, with round trips of %v = %v", trip, err)
	}
}

// TestConnectionIsHanded: a request that connects takes the connection that another puts back, if that comes first.
func TestConnectionIsHanded(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	g := take(t, d, "handed", time.Minute)
	d.listening(t)
	pool := d.wire.pool
	pool.before = func(ctx context.Context) (*pgconn.Config, error) { <-ctx.Done(); return nil, ctx.Err() } // no other comes
	c, err := pool.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for idle := pool.pop(t.Context()); idle != nil; idle = pool.pop(t.Context()) {
		idle.end()
	}
	renewed := make(chan error, 1)
	go func() { _, err := g.Renew(t.Context(), time.Minute); renewed <- err }()
	if !eventually(patience, func() bool { return len(pool.dials) > 0 }) {
		t.Fatal("the renewal does not connect")
	}
	pool.put(c, true)
	if err := <-renewed; err != nil {
		t.Errorf("Renew = %v", err)
	}
}
