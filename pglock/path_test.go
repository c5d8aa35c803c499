// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	_ "embed"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/participant"
)

//go:embed testdata/traps.sql
var traps string

// trapsIn returns the SQL that makes the traps in a schema.
func trapsIn(schema string) string { return strings.ReplaceAll(traps, "SCHEMA.", schema+".") }

// TestSearchPath: nothing that this package sends to the server, and no function of its schema, runs
// a function or an operator of another schema, whatever search_path the user, the pooler or the
// transaction has.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	sql(t, p, `CREATE SCHEMA trap; CREATE SEQUENCE trap.sprung; GRANT USAGE ON SCHEMA trap TO PUBLIC; GRANT ALL ON trap.sprung TO PUBLIC;
		CREATE USER mallory; GRANT CREATE ON SCHEMA public TO mallory`)
	sql(t, p, "SET ROLE mallory;"+trapsIn("public"))
	b := servers.StartPgBouncer(t, p, "")
	for i, path := range []string{`"$user", public`, "public, pg_catalog"} { // with the first, only what fits better is found
		sql(t, p, "ALTER ROLE pawl SET search_path = "+path)
		must(t, b.Restart())
		for what, address := range map[string]string{
			"direct": p.URL("pawl"), "pooled": b.URL(), "listen": b.URL() + "&listen=" + url.QueryEscape(p.URL("pawl")),
		} {
			useAll(t, p, address, &Options{Schema: what + strconv.Itoa(i), MaxTTL: time.Hour, ConnectTimeout: patience})
		}
		if got := sql(t, p, "SELECT is_called FROM trap.sprung"); got != "f" {
			t.Errorf("search_path %s: a function or an operator of another schema was called", path)
		}
	}
}

// useAll calls everything that a client can do.
func useAll(t *testing.T, p *servers.Postgres, address string, opts *Options) {
	t.Helper()
	ctx := t.Context()
	d, other := open(t, address, opts), open(t, address, opts)
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	g := take(t, d, "x", time.Minute)
	isHeld(t, other, "x")
	next := waits(t, other, "x")
	check("Release", g.Release(ctx))
	g = next()
	_, err := g.Renew(ctx, time.Minute)
	check("Renew", err)
	_, err = d.List(ctx, "")
	check("List", err)
	_, err = d.Describe(ctx)
	check("Describe", err)
	for _, f := range d.Examine(ctx) {
		if f.Level == driver.Problem {
			t.Errorf("Examine: %s", f.Text)
		}
	}
	guardIn(t, p, g)
	adopted, err := d.Adopt(ctx, "x", ref(t, d, "x").Lease)
	check("Adopt", err)
	if err == nil {
		_, err = adopted.Renew(ctx, time.Minute)
		check("Renew of an adopted lease", err)
	}
	lease := ref(t, d, "x").Lease
	check("Break", d.Break(ctx, "x", lease, nil, "test"))
	if _, err := d.Adopt(ctx, "x", lease); err == nil {
		t.Error("a lease that was broken is adopted")
	}
	req := request("shared", time.Minute)
	req.Shared = true
	g, err = d.TryAcquire(ctx, req)
	check("TryAcquire of a shared lease", err)
	if err == nil {
		_, err = g.Renew(ctx, time.Minute)
		check("Renew of a shared lease", err)
		check("Release of a shared lease", g.Release(ctx))
	}
	for _, name := range []string{"many", "more"} {
		check("Release", take(t, d, name, time.Minute).Release(ctx))
	}
	one, two := driver.Ref{Name: "many", Lease: "l1"}, driver.Ref{Name: "more", Lease: "l2"}
	many := func(what string, all []storekit.Reply[reply]) {
		t.Helper()
		if got := codes(all); !slices.Equal(got, []int{1, 1}) {
			t.Errorf("many %s in a call: %v", what, got)
		}
	}
	many("requests", d.wire.acquireAll(ctx, []*asking{asks("many", "l1"), asks("more", "l2")}))
	many("renewals", d.wire.renewAll(ctx, []renewing{{one, 2 * time.Minute}, {two, 2 * time.Minute}}))
	many("releases", d.wire.releaseAll(ctx, []ending{{Ref: one}, {Ref: two}}))
	check("tidy", d.wire.tidyOnce(ctx, 0))
	check("Bless", Bless(ctx, address, opts))
	check("SetMaxTTL", SetMaxTTL(ctx, address, time.Minute, opts))
}

// guardIn guards a transaction of a session that has the traps in pg_temp, and one whose lease has
// ended.
func guardIn(t *testing.T, p *servers.Postgres, g *participant.Lease) {
	t.Helper()
	ctx := context.Background()
	c := connect(t, p.URL("pawl"))
	if _, err := c.Exec(ctx, "CREATE TEMP TABLE pg_locks (pid int); CREATE TEMP TABLE lock (name text);"+trapsIn("pg_temp")+"SET search_path = pg_temp, public, pg_catalog"); err != nil {
		t.Fatal(err)
	}
	tx, err := c.Begin(ctx)
	must(t, err)
	if err := g.Guard(ctx, tx, nil); err != nil {
		t.Errorf("Guard: %v", err)
	}
	var path string
	if err := tx.QueryRow(ctx, "SHOW search_path").Scan(&path); err != nil || path != "pg_temp, public, pg_catalog" {
		t.Errorf("search_path after Guard: %q, %v; want the user's", path, err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
}
