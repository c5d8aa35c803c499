// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// opener returns how to open a client at an address.
func opener(ttl, tick time.Duration) func(addr string) (*pawl.Client, error) {
	return func(addr string) (*pawl.Client, error) {
		return Open(context.Background(), "zk://"+addr, &Options{Options: pawl.Options{TTL: ttl}, TickTime: tick})
	}
}

// A lease lives as long as the servers answer within a fifth of the TTL, or a sixth if their
// ticks are a tenth of it.
func TestLeaseLivesOnASlowLink(t *testing.T) {
	const ttl = 12 * time.Second
	for name, c := range map[string]struct{ tick, trip time.Duration }{
		"short ticks": {tick, ttl / 5}, "long ticks": {ttl / 10, ttl * 17 / 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.SlowLink(t, startServer(t).Addr, ttl, c.trip, opener(ttl, c.tick))
		})
	}
}

// On a link on which a lease can never be trusted, Acquire says so, and leaves the name free.
func TestTooSlowForTheTTL(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	s := startServer(t)
	link := drivertest.NewLink(t, s.Addr)
	link.Slow(ttl / 10)
	slow, err := opener(ttl, tick)(link.Addr())
	must(t, err)
	defer slow.Close()
	other, err := opener(ttl, tick)(s.Addr)
	must(t, err)
	defer other.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := slow.Acquire(ctx, "too-slow", pawl.NoRenew()) // which takes the whole TTL
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "use a TTL of at least") {
		t.Fatalf("Acquire = %v, %v; want ErrUnavailable, and what TTL it takes", l, err)
	}
	l, err = other.TryAcquire(t.Context(), "too-slow")
	if err != nil {
		t.Fatalf("TryAcquire of another client = %v; want that the name is free", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A renewal goes on when its caller has given up, and a later one is told. No call of this test takes as long as a
// round trip, so none gets the answer to its own request.
func TestRenewalGoesOn(t *testing.T) {
	t.Parallel()
	const trip, ttl = 3 * time.Second, time.Minute
	server := startServer(t)
	release(t, take(t, openURL(t, server.url(), ttl), request("goes-on", ttl))) // the node of the name is there now
	link := drivertest.NewLink(t, server.Addr)
	link.Slow(trip / 2)
	g := take(t, openURL(t, "zk://"+link.Addr()+"?connect_timeout=1m", ttl), request("goes-on", ttl))
	drivertest.RenewalGoesOn(t, trip*2/3, func(ctx context.Context) (driver.Instant, error) { return g.Renew(ctx, ttl) })
	release(t, g)
}
