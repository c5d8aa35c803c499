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

// TestLeaseLivesOnASlowLink: a lease lives as long as the server answers within a quarter of the TTL, although its
// renewals wait for connections that other requests use.
func TestLeaseLivesOnASlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	drivertest.SlowLink(t, server(t).Addr, ttl, ttl/4, func(addr string) (*pawl.Client, error) {
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
	link.Slow(trip / 2)
	d.wire.pool.drop(driver.Now())
	if _, err := d.wire.Inspect(t.Context(), "slow connect"); err != nil {
		t.Errorf("Inspect, with round trips of %v = %v", trip, err)
	}
}

// TestRenewalGoesOn: the answer to a renewal whose caller has given up counts for the next call. It may take longer than
// other answers, if the TTL is long.
func TestRenewalGoesOn(t *testing.T) {
	t.Parallel()
	const trip, ttl = requestTimeout * 6 / 5, time.Minute
	link := drivertest.NewLink(t, server(t).Addr)
	d := openThrough(t, link, &Options{MaxTTL: wide.MaxTTL, ConnectTimeout: patience})
	g := take(t, d.client, "goes on", ttl)
	link.Slow(trip / 2)
	pool := d.wire.pool
	pool.drop(driver.Now())
	c, err := pool.get(t.Context()) // or the renewal connects
	if err != nil {
		t.Fatal(err)
	}
	pool.put(c, true)
	began := driver.Now()
	ctx, cancel := context.WithTimeout(t.Context(), trip/2)
	defer cancel()
	if _, err := g.Renew(ctx, ttl); err == nil {
		t.Fatalf("Renew has taken less than %v; a round trip takes %v", trip/2, trip)
	}
	again := driver.Now()
	switch since, err := g.Renew(t.Context(), ttl); {
	case err != nil:
		t.Error(err)
	case since < began || since >= again:
		t.Errorf("trust counts from %v after the first renewal, and that gave up after %v; want from its sending", since.Sub(began), again.Sub(began))
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
