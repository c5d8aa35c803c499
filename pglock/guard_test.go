// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"crypto/rand"
	dbsql "database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// request is an attempt to get name for ttl.
func request(name string, ttl time.Duration) *driver.Request {
	return &driver.Request{Name: name, Lease: rand.Text(), TTL: ttl, Holder: &driver.Holder{Who: "test"}}
}

func take(t testing.TB, d *client, name string, ttl time.Duration) *participant.Lease {
	t.Helper()
	return ask(t, d, request(name, ttl))
}

// ask returns the lease that d is granted for r.
func ask(t testing.TB, d *client, r *driver.Request) *participant.Lease {
	t.Helper()
	g, err := d.TryAcquire(t.Context(), r)
	must(t, err)
	return g
}

// release releases a lease of a participant or of a client.
func release(t testing.TB, g interface{ Release(context.Context) error }) {
	t.Helper()
	if err := g.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// isHeld checks that the name is held.
func isHeld(t testing.TB, d *client, name string) {
	t.Helper()
	if _, err := d.TryAcquire(t.Context(), request(name, time.Second)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire = %v; want ErrHeld", err)
	}
}

// expire ends the time of the leases on a name at the server, guarded or not.
func expire(t testing.TB, p *servers.Postgres, name string) {
	t.Helper()
	sql(t, p, fmt.Sprintf(`UPDATE pawl.lock SET until = least(until, pawl.us()), soonest = least(soonest, pawl.us()) WHERE name = '%[1]s';
		UPDATE pawl.sharer SET until = least(until, pawl.us()) WHERE name = '%[1]s'`, name))
}

// testTx is a transaction of pgx, or of database/sql.
type testTx struct {
	tx     any
	exec   func(sql string) error
	commit func() error
	abort  func()
	pid    func() int // of the server's process; with pgx only
}

// begin returns ways to begin a transaction, by their name.
func beginners(t testing.TB, p *servers.Postgres) map[string]func() *testTx {
	db, err := dbsql.Open("pgx", p.URL("pawl"))
	must(t, err)
	t.Cleanup(func() { db.Close() })
	ctx := context.Background()
	return map[string]func() *testTx{
		"pgx": func() *testTx {
			c := connect(t, p.URL("pawl"))
			tx, err := c.Begin(ctx)
			must(t, err)
			return &testTx{tx, func(q string) error { _, err := tx.Exec(ctx, q); return err },
				func() error { return tx.Commit(ctx) }, func() { tx.Rollback(ctx) }, func() int { return int(c.PgConn().PID()) }}
		},
		"sql": func() *testTx {
			tx, err := db.Begin()
			must(t, err)
			return &testTx{tx, func(q string) error { _, err := tx.Exec(q); return err }, tx.Commit, func() { tx.Rollback() }, nil}
		},
	}
}

// TestGuard: from Guard to the end of the transaction nobody else is granted the name,
// whatever happens to the lease, and whoever has lost it cannot commit.
func TestGuard(t *testing.T) {
	t.Parallel()
	p := server(t)
	mine, other := open(t, p.URL("pawl"), wide), open(t, p.URL("pawl"), wide)
	guard := func(g *participant.Lease, tx any) error { return g.Guard(t.Context(), tx, nil) }
	for way, begin := range beginners(t, p) {
		t.Run(way, func(t *testing.T) {
			name := func(s string) string { return "guard/" + way + "/" + s }
			sql(t, p, fmt.Sprintf("CREATE TABLE IF NOT EXISTS guarded_%s (token bigint)", way))
			write := func(tx *testTx, g *participant.Lease) error {
				return tx.exec(fmt.Sprintf("INSERT INTO guarded_%s VALUES (%d)", way, g.Token()))
			}
			for what, end := range map[string]func(g *participant.Lease, name string){
				"expired": func(_ *participant.Lease, name string) { expire(t, p, name) },
				"released": func(g *participant.Lease, _ string) {
					release(t, g)
				},
				"broken": func(g *participant.Lease, name string) {
					if err := other.Break(t.Context(), name, ref(t, other, name).Lease, nil, "test"); err != nil {
						t.Errorf("Break: %v", err)
					}
				},
			} {
				g := take(t, mine, name(what), time.Minute)
				lease := ref(t, mine, name(what))
				tx := begin()
				if err := guard(g, tx.tx); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				end(g, name(what))
				isHeld(t, other, name(what))
				if err := write(tx, g); err != nil {
					t.Error(err)
				}
				if err := tx.commit(); err != nil {
					t.Errorf("%s: commit = %v", what, err)
				}
				next := take(t, other, name(what), time.Minute)
				// The first one is late now.
				tx = begin()
				if err := write(tx, g); err != nil {
					t.Error(err)
				}
				// The wire knows of no loss.
				if err := mine.wire.Guard(t.Context(), lease, g.Token(), tx.tx, nil); !errors.Is(err, driver.ErrLost) {
					t.Errorf("%s: Guard = %v; want ErrLost", what, err)
				}
				if err := tx.commit(); err == nil {
					t.Errorf("%s: the late transaction was committed", what)
				}
				if n := sql(t, p, fmt.Sprintf("SELECT count(*) FROM guarded_%s WHERE token = %d", way, g.Token())); n != "1" {
					t.Errorf("%s: %s writes are there; want 1", what, n)
				}
				next.Release(t.Context())
			}

			over := take(t, mine, name("over"), time.Minute)
			expire(t, p, name("over"))
			tx := begin()
			if err := guard(over, tx.tx); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Guard of a lease whose time is over = %v; want ErrLost", err)
			}
			tx.abort()

			g := take(t, mine, name("renewed"), time.Minute)
			tx = begin()
			must(t, guard(g, tx.tx))
			if _, err := g.Renew(t.Context(), time.Minute); err != nil {
				t.Errorf("Renew while a transaction guards the lease: %v", err)
			}
			tx.abort()
			release(t, g)
			take(t, other, name("renewed"), time.Minute)
		})
	}
	if err := guard(take(t, mine, "guard/pool", time.Minute), open(t, p.URL("pawl"), wide)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Guard with something else: %v; want ErrUnsupported", err)
	}
}

// TestGuardSharers: a reader and a slot are guarded as a writer is.
func TestGuardSharers(t *testing.T) {
	t.Parallel()
	p := server(t)
	mine, other := open(t, p.URL("pawl"), wide), open(t, p.URL("pawl"), wide)
	for what, kind := range map[string]driver.Request{"reader": {Shared: true}, "slot": {Slots: 1}} {
		req := request("guard/"+what, time.Minute)
		req.Shared, req.Slots = kind.Shared, kind.Slots
		g := ask(t, mine, req)
		tx := beginners(t, p)["pgx"]()
		must(t, g.Guard(t.Context(), tx.tx, nil))
		expire(t, p, req.Name)
		isHeld(t, other, req.Name)
		if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release of a lease whose time is over = %v; want ErrLost", err)
		}
		isHeld(t, other, req.Name)
		if err := tx.commit(); err != nil {
			t.Error(err)
		}
		take(t, other, req.Name, time.Minute)
	}
}
