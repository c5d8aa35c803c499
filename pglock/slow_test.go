// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"fmt"
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

// granted asks for a lease and returns it as the wire knows it.
func granted(t *testing.T, d *client, name string, ttl time.Duration) (driver.Ref, *handle) {
	t.Helper()
	req := request(name, ttl)
	ans, err := d.wire.Ask(t.Context(), req)
	if err != nil || !ans.Granted {
		t.Fatalf("Ask = %+v, %v", ans, err)
	}
	return driver.Ref{Name: req.Name, Lease: req.Lease, Handle: ans.Handle}, ans.Handle.(*handle)
}

// TestRenewalGoesOn: the answer to a renewal whose caller has given up counts for a call that gets no other. It may take
// longer than other answers, if the TTL is long.
func TestRenewalGoesOn(t *testing.T) {
	t.Parallel()
	const trip, ttl = requestTimeout * 6 / 5, time.Minute
	link := drivertest.NewLink(t, server(t).Addr)
	d := openThrough(t, link, &Options{MaxTTL: wide.MaxTTL, ConnectTimeout: patience})
	l, h := granted(t, d.client, "goes on", ttl)
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
	if _, err := d.wire.Renew(ctx, l, ttl); err == nil {
		t.Fatalf("Renew has taken less than %v; a round trip takes %v", trip/2, trip)
	}
	again := driver.Now()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() {
		eventually(patience, func() bool { return h.last.Load() != nil })
		cancel()
	}()
	switch r, err := d.wire.Renew(ctx, l, ttl); {
	case err != nil:
		t.Error(err)
	case r.Since < began || r.Since >= again:
		t.Errorf("trust counts from %v after the first renewal, and that gave up after %v; want from its sending", r.Since.Sub(began), again.Sub(began))
	}
}

// TestLateAnswer: a call returns its own answer, and none that came before the call unless the lease is lost.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	const trip, ttl = 400 * time.Millisecond, time.Minute
	link := drivertest.NewLink(t, server(t).Addr)
	d := openThrough(t, link, &Options{MaxTTL: wide.MaxTTL, ConnectTimeout: patience})
	l, h := granted(t, d.client, "late answer", ttl)
	renew := func(limit time.Duration) (driver.Renewal, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return d.wire.Renew(ctx, l, ttl)
	}
	quick := func() (r driver.Renewal, err error) { // gives up before an answer can come
		began := driver.Now()
		if r, err = renew(trip / 4); driver.Now() >= began.Add(trip) {
			err = context.DeadlineExceeded // it came while this process stood still
		}
		return r, err
	}
	late := func() *renewal { // is the answer to a call that has given up
		t.Helper()
		before := h.last.Load()
		if r, err := quick(); err == nil {
			t.Fatalf("Renew without an answer = %+v", r)
		}
		if !eventually(patience, func() bool { return h.last.Load() != before }) {
			t.Fatal("the renewal does not go on")
		}
		return h.last.Load()
	}
	link.Slow(trip / 2)
	d.wire.pool.drop(driver.Now())
	late()
	began := driver.Now()
	if r, err := renew(patience); err != nil || r.Since < began {
		t.Errorf("Renew = %v, from %v after the call; want its own answer", err, r.Since.Sub(began))
	}
	if r := late(); r.Heard < r.Since.Add(trip) {
		t.Errorf("an answer was heard %v after its request; a round trip takes %v", r.Heard.Sub(r.Since), trip)
	}
	late() // and it has not returned the answer before
	if _, err := open(t, server(t).URL("pawl"), wide).wire.End(t.Context(), l, driver.End{}); err != nil {
		t.Fatal(err)
	}
	lost := func() bool { r := h.last.Load(); return errors.Is(r.err, driver.ErrLost) }
	if _, err := quick(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Renew = %v in less than a round trip", err)
	}
	if !eventually(patience/3, lost) {
		t.Error("nobody hears that the lease is lost")
	}
	if _, err := renew(trip / 4); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew after a late loss = %v; want ErrLost", err)
	}
}

// TestDeadConnections: renewals of long leases on connections that a firewall has forgotten keep no connection from
// other requests for long.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	const ttl = time.Hour
	link := drivertest.NewLink(t, server(t).Addr)
	d := openThrough(t, link, &Options{MaxTTL: wide.MaxTTL, ConnectTimeout: patience})
	pool := d.wire.pool
	leases, idle := make([]driver.Ref, cap(pool.slots)), make([]*conn, cap(pool.slots))
	for i := range idle {
		leases[i], _ = granted(t, d.client, fmt.Sprint("dead connections ", i), ttl)
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
		if !eventually(patience, func() bool { return len(pool.slots) > i }) {
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
