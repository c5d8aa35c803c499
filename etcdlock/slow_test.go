// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// A lease lives as long as the cluster answers within a fifth of the TTL: a grant may take four
// round trips, and a renewal takes two.
func TestLeaseLivesOnASlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second
	drivertest.SlowLink(t, startServer(t).Addr, ttl, ttl/5, func(addr string) (*pawl.Client, error) {
		return Open(context.Background(), "etcd://"+addr, &Options{Options: pawl.Options{TTL: ttl}, ConnectTimeout: patience})
	})
}

// An answer that takes longer than other requests have keeps a lease with a long TTL.
func TestLateProofOfALongLease(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	m := startServer(t)
	g := take(t, openStore(t, m.url()), requestFor("deploy", ttl))
	drivertest.Until(t, "nobody listens", func() bool { return m.metric("etcd_debugging_mvcc_watcher_total") == 1 }) // else that gives the connection up
	if _, err := g.prove(t.Context()); err != nil {                                                                  // or gRPC's next ping, after 10 s without an answer, falls into the pause
		t.Fatal(err)
	}
	m.Stop()
	defer m.Cont()
	time.AfterFunc(requestTimeout*6/5, m.Cont)
	if _, err := g.proveInTime(t.Context(), g.backing); err != nil {
		t.Errorf("a read whose answer takes %v does not prove a lease with a TTL of %v: %v", requestTimeout*6/5, ttl, err)
	}
	release(t, g)
}

// A grant fails soon if the cluster does not confirm it, however long its TTL is.
func TestGrantWithoutAnswer(t *testing.T) {
	t.Parallel()
	const ttl = time.Hour
	d, req := openStore(t, startServer(t).url()), requestFor("deploy", ttl)
	g := take(t, d, req)
	g.backing.since = g.backing.since.Add(-ttl / 2)
	for range cap(d.streams) { // as keepalives without an answer, from a member that still answers pings
		d.streams <- struct{}{}
	}
	done := make(chan error, 1)
	go func() { _, err := g.claim(t.Context(), req, &looked{term: g.backing.term + 1}); done <- err }()
	err := drivertest.Receive(t, done, "a grant waits for its confirmation for ever")
	if err == nil || !driver.FailureOf(err).Maybe {
		t.Errorf("without an answer the grant is %v; want a failure that is uncertain", err)
	}
}

// slowStore opens a participant on a link over which a round trip takes so long.
func slowStore(t *testing.T, trip time.Duration) *half {
	t.Helper()
	link := drivertest.NewLink(t, startServer(t).Addr)
	link.Slow(trip / 2)
	return openStore(t, "etcd://"+link.Addr()+"?connect_timeout=1m")
}

// A renewal goes on when its caller has given up, and a later one is told. It takes two round trips, each less than a
// third of the TTL.
func TestRenewalGoesOn(t *testing.T) {
	t.Parallel()
	const trip, ttl = 3 * time.Second, 15 * time.Second
	g := take(t, slowStore(t, trip), requestFor("deploy", ttl))
	drivertest.RenewalGoesOn(t, trip*3/2, func(ctx context.Context) (driver.Instant, error) { return g.Renew(ctx, ttl) })
	release(t, g)
}

// A renewal under way while the key is bound to another etcd lease says nothing of that one.
func TestRewriteBesideRenewal(t *testing.T) {
	t.Parallel()
	const trip, ttl = time.Second, 30 * time.Second
	g := take(t, slowStore(t, trip), requestFor("deploy", ttl))
	renewed := make(chan error, 1)
	go func() {
		_, err := g.Renew(t.Context(), ttl)
		renewed <- err
	}()
	time.Sleep(trip / 4)
	if _, err := g.Renew(t.Context(), 2*ttl); err != nil {
		t.Errorf("Renew for longer = %v", err)
	}
	if err := <-renewed; err == nil {
		t.Error("a keepalive for the etcd lease that was replaced counts")
	}
	release(t, g)
}
