// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// skewed is the schema with a clock that is ahead of the machine's by what an expression says.
func skewed(schema, micros string) string {
	return Schema(schema) + fmt.Sprintf(`; CREATE OR REPLACE FUNCTION %s.us() RETURNS bigint LANGUAGE sql VOLATILE AS
		$$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint OPERATOR(pg_catalog.+) %s $$`, quote(schema), micros)
}

// TestClockBehind: after a failover to a replica whose clock is behind by more than MaxTTL, tokens
// grow, also for names of which it has not got the last grant, or none.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	const skew = "coalesce(pg_catalog.current_setting('pawl.skew', true), '0')::bigint"
	p, r, link, _ := pair(t, Durable, "-c", "pawl.skew=1200000000") // 20 minutes; the replica's clock is right
	sql(t, p, skewed("pawl", skew))
	opts := &Options{MaxTTL: testMaxTTL}
	d := open(t, p.URL("pawl"), opts)
	last := make(map[string]uint64)
	grant := func(names ...string) {
		for _, name := range names {
			g := take(t, d, name, time.Minute)
			last[name] = g.Token()
			release(t, g)
		}
	}
	grant("has", "has an old one of")
	take(t, d, "replicated", time.Minute)
	replicated(t, r, "replicated")
	link.Set(drivertest.BlackHole)
	grant("has an old one of", "has none of")
	p.Kill()
	link.Close()
	must(t, r.Promote())
	if err := Bless(t.Context(), r.URL("pawl"), opts); err != nil { // the quarantine
		t.Fatal(err)
	}
	d = open(t, r.URL("pawl"), opts)
	for name, token := range last {
		if g := take(t, d, name, time.Minute); g.Token() <= token {
			t.Errorf("token %d of a name that the replica %s, after %d", g.Token(), name, token)
		}
	}
}

// TestTidyTakesMetaFirst: tidy locks no row before it has what bind locks first: bind changes
// rows too, and would wait in a circle.
func TestTidyTakesMetaFirst(t *testing.T) {
	t.Parallel()
	p := server(t)
	d := open(t, p.URL("pawl"), &Options{Schema: "circle", MaxTTL: testMaxTTL})
	release(t, take(t, d, "gone", testMaxTTL))
	c := connect(t, p.URL("pawl")).PgConn()
	tell(t, c, "BEGIN; SELECT FROM circle.meta FOR UPDATE")
	done := make(chan error, 1)
	other := connect(t, p.URL("pawl")).PgConn() // without the time-out of a request
	go func() { _, err := other.Exec(t.Context(), "SELECT circle.tidy('', 0, 1000)").ReadAll(); done <- err }()
	blocked(t, "circle.tidy")
	tell(t, c, "SELECT FROM circle.lock FOR UPDATE NOWAIT") // fails if tidy has rows while it waits for meta
	tell(t, c, "ROLLBACK")
	if err := <-done; err != nil {
		t.Errorf("tidy = %v", err)
	}
}

// TestClockSetBack: if the server's clock is set back, a lease that nobody renews ends after MaxTTL
// at the latest, and a name whose row was removed gets no smaller token.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	p := server(t)
	sql(t, p, "CREATE TABLE public.skew (us bigint); INSERT INTO public.skew VALUES (0);"+skewed("back", "(SELECT s.us FROM public.skew s)"))
	opts := &Options{Schema: "back", MaxTTL: testMaxTTL}
	d, other := open(t, p.URL("pawl"), opts), open(t, p.URL("pawl"), opts)
	take(t, d, "writer", time.Minute)
	for range 2 {
		req := request("readers", time.Minute)
		req.Shared = true
		ask(t, d, req)
	}
	gone := take(t, d, "gone", time.Minute)
	release(t, gone)
	sql(t, p, "UPDATE public.skew SET us = 30000000")
	must(t, d.wire.tidyOnce(t.Context(), time.Second))
	if n := sql(t, p, "SELECT count(*) FROM back.lock WHERE name = 'gone'"); n != "0" {
		t.Fatal("the row of a name that nobody uses stays")
	}
	sql(t, p, "UPDATE public.skew SET us = -3600000000")
	for _, name := range []string{"writer", "readers"} {
		var held *driver.HeldError
		if _, err := other.TryAcquire(t.Context(), request(name, time.Minute)); !errors.As(err, &held) {
			t.Fatalf("TryAcquire = %v; want ErrHeld", err)
		}
		latest := sql(t, p, "SELECT (greatest((SELECT max(until) FROM back.lock WHERE name = '"+name+"'), (SELECT max(until) FROM back.sharer WHERE name = '"+name+"')) - back.us()) / 1000000")
		var left int
		if _, err := fmt.Sscan(latest, &left); err != nil || time.Duration(left)*time.Second > testMaxTTL {
			t.Errorf("%s is held for another %s s; want %v at most, %v", name, latest, testMaxTTL, err)
		}
	}
	if g := take(t, other, "gone", time.Minute); g.Token() <= gone.Token() {
		t.Errorf("token %d after %d, whose row was removed", g.Token(), gone.Token())
	}
}
