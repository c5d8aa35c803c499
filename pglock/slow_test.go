// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/storekit"
)

// TestLeaseLivesOnASlowLink: a lease lives as long as the server answers within a quarter of the TTL, although its
// renewals wait for connections that other requests use.
func TestLeaseLivesOnASlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	drivertest.SlowLink(t, server(t).Addr, ttl, ttl/4, func(addr string) (*pawl.Client, error) {
		return Open(context.Background(), urlOf(addr), &Options{Options: pawl.Options{TTL: ttl}, ConnectTimeout: patience})
	})
}

// TestSlowConnect: the time-out of a request counts from its sending, not from the connecting before it, which takes
// two round trips.
func TestSlowConnect(t *testing.T) {
	t.Parallel()
	const trip = 2 * time.Second
	link := drivertest.NewLink(t, server(t).Addr)
	d := open(t, urlOf(link.Addr()), wide)
	link.Slow(trip / 2)
	d.wire.pool.drop(driver.Now())
	if _, err := d.wire.Inspect(t.Context(), "slow connect"); err != nil {
		t.Errorf("Inspect, with round trips of %v = %v", trip, err)
	}
}

// TestRenewalGoesOn: the answer to a renewal whose caller has given up counts for a later call that gets no other
// while it waits. A call returns no answer that came before it, unless the lease is lost, and none for another TTL.
func TestRenewalGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip, ttl = time.Second, time.Minute
		h, lost := new(handle), new(atomic.Bool)
		s := &store{renewals: storekit.Batch[renewing, reply]{Most: 1, Alone: func(context.Context, renewing) (reply, error) {
			code, sent := map[bool]string{false: "1", true: "0"}[lost.Load()], driver.Now()
			time.Sleep(trip)
			return reply{row: [][]byte{[]byte(code), nil, nil}, sent: sent}, nil
		}}}
		began := driver.Now()
		for i, c := range []struct {
			wait, limit, ttl time.Duration
			since            time.Duration // of the lease, after the first call; negative: there is no answer
		}{
			{0, trip / 4, ttl, -1},
			{0, trip * 7 / 8, ttl, 0},                // until 9/8 trip; the answer to the first comes after a trip
			{2 * trip, 2 * trip, ttl, trip * 25 / 8}, // its own
			{trip / 8, trip / 4, ttl, -1},            // not that one
			{2 * trip, trip / 4, ttl / 2, -1},
			{0, trip * 7 / 8, ttl, -1}, // the answer for half of the TTL comes
		} {
			time.Sleep(c.wait)
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			r, err := s.Renew(ctx, driver.Ref{Handle: h}, c.ttl)
			if cancel(); c.since < 0 && !errors.Is(err, context.DeadlineExceeded) || c.since >= 0 && (err != nil || r.Since.Sub(began) != c.since || r.Heard != r.Since.Add(trip)) {
				t.Errorf("call %d: Renew = %+v, since %v, %v; want %v", i, r, r.Since.Sub(began), err, c.since)
			}
		}
		time.Sleep(2 * trip)
		lost.Store(true)
		for _, want := range []error{context.DeadlineExceeded, driver.ErrLost} {
			ctx, cancel := context.WithTimeout(t.Context(), trip/4)
			defer cancel()
			if _, err := s.Renew(ctx, driver.Ref{Handle: h}, ttl); !errors.Is(err, want) {
				t.Errorf("Renew of a lease that is lost = %v; want %v", err, want)
			}
			time.Sleep(2 * trip)
		}
		for ttl, want := range map[time.Duration]time.Duration{ttl: 2 * requestTimeout, 6 * time.Second: 2 * time.Second, leastFlight - 1: requestTimeout} {
			if got := (&store{pool: new(pool)}).answerTime(ttl); got != want {
				t.Errorf("a renewal for %v waits %v for its answer; want %v", ttl, got, want)
			}
		}
	})
}

// TestDeadConnections: renewals of long leases on connections that a firewall has forgotten keep no connection from
// other requests for long.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	const ttl = time.Hour
	link := drivertest.NewLink(t, server(t).Addr)
	d := open(t, urlOf(link.Addr()), wide)
	pool := d.wire.pool
	leases, idle := make([]driver.Ref, cap(pool.idle)), make([]*conn, cap(pool.idle))
	for i := range idle {
		req := request(fmt.Sprint("dead connections ", i), ttl)
		if _, err := d.wire.Ask(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		leases[i] = driver.Ref{Name: req.Name, Lease: req.Lease}
	}
	for i := range idle {
		var err error
		if idle[i], err = pool.get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range idle {
		pool.put(c, true)
	}
	link.Set(drivertest.Forgotten)
	for i, l := range leases {
		go d.wire.renew(t.Context(), renewing{l, ttl}) // each in a call of its own
		if !eventually(patience, func() bool { return len(pool.idle) < len(idle)-i }) {
			t.Fatal("a renewal is not sent")
		}
	}
	if !eventually(patience, func() bool { _, err := d.Inspect(t.Context(), "dead connections"); return err == nil }) {
		t.Error("others get no connection")
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
	must(t, err)
	for len(pool.idle) > 0 {
		(<-pool.idle).end()
		<-pool.places
	}
	renewed := make(chan error, 1)
	go func() { _, err := g.Renew(t.Context(), time.Minute); renewed <- err }()
	if !eventually(patience, func() bool { return len(pool.places) > 1 }) {
		t.Fatal("the renewal does not connect")
	}
	pool.put(c, true)
	if err := <-renewed; err != nil {
		t.Errorf("Renew = %v", err)
	}
}

// TestLateConnectionIsHanded: a connection whose request has given up goes to the next request. Otherwise no request
// gets one on a link on which each gives up before it is connected.
func TestLateConnectionIsHanded(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	p := newPool(t.Context(), d.wire.pool.config, 1, patience, d.wire.replaced)
	p.places <- struct{}{} // of the request that has given up
	must(t, p.connect())
	p.before = func(ctx context.Context) (*pgconn.Config, error) { <-ctx.Done(); return nil, ctx.Err() } // no other comes
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := p.get(ctx)
	if err != nil {
		t.Fatalf("the request does not have the connection: %v", err)
	}
	c.end()
}

// TestFailedDials: a connection that could not be made leaves its place to the next, also if there is one place only.
func TestFailedDials(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	p := newPool(t.Context(), d.wire.pool.config, 1, patience, d.wire.replaced)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	away := errors.New("the server is away")
	p.before = func(context.Context) (*pgconn.Config, error) { return nil, away }
	for range 3 {
		if _, err := p.get(ctx); err == nil || ctx.Err() != nil {
			t.Fatalf("get = %v; want %v", err, away)
		}
	}
	p.before = nil
	for range 3 { // a connection that is bad leaves its place, too
		c, err := p.get(ctx)
		if err != nil {
			t.Fatalf("get = %v when the server is back", err)
		}
		p.put(c, false)
	}
}
