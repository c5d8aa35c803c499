// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// pair starts a server, with more settings in args, and a streaming replica of it, which has each commit if the mode is
// synchronous, the link through which it follows, and the URL of both.
func pair(t *testing.T, mode Mode, args ...string) (p, r *servers.Postgres, link *drivertest.Link, url string) {
	t.Helper()
	p = servers.StartPostgres(t, args...)
	link = drivertest.NewLink(t, p.Addr)
	host, port, _ := net.SplitHostPort(link.Addr())
	r, err := p.Replica(servers.Memory(), "r1", "-c", "wal_retrieve_retry_interval=100ms",
		"-c", "primary_conninfo=user=pawl application_name=r1 host="+host+" port="+port)
	must(t, err)
	t.Cleanup(r.Remove)
	if mode == Synchronous {
		sql(t, p, "ALTER SYSTEM SET synchronous_standby_names = 'r1'")
		sql(t, p, "SELECT pg_reload_conf()")
		if !eventually(patience, func() bool {
			return sql(t, p, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
		}) {
			t.Fatal("the replica does not follow")
		}
	}
	return p, r, link, "postgres://pawl@" + p.Addr + "," + r.Addr + "/postgres?sslmode=disable"
}

// promote makes a primary of a replica. With synchronous replication it waits for a replica
// of its own from then on.
func promote(t *testing.T, r *servers.Postgres, mode Mode) {
	t.Helper()
	must(t, r.Promote())
	if mode != Synchronous {
		return
	}
	sql(t, r, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	sql(t, r, "SELECT pg_reload_conf()")
	second, err := r.Replica(servers.Memory(), "r2")
	must(t, err)
	t.Cleanup(second.Remove)
}

// replicated waits until a replica shows that a name is held.
func replicated(t *testing.T, r *servers.Postgres, name string) {
	t.Helper()
	if !eventually(patience, func() bool {
		out, err := r.SQL("SELECT count(*) FROM pawl.lock WHERE name = '" + name + "' AND lease IS NOT NULL")
		return err == nil && out == "1"
	}) {
		t.Fatal("the replica has not got the lease")
	}
}

const testMaxTTL = 3 * time.Minute

// isClosed reports whether nothing is granted for about testMaxTTL from now.
func isClosed(left time.Duration) bool { return left > testMaxTTL-time.Minute && left <= testMaxTTL }

// TestSilentHost: a host that takes connections and does not answer, such as a primary that
// was stopped, does not keep a client from the next host.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes them; nobody serves
	must(t, err)
	t.Cleanup(func() { silent.Close() })
	url := "postgres://pawl@" + silent.Addr().String() + "," + server(t).Addr + "/postgres?sslmode=disable"
	d := open(t, url, &Options{Schema: "silent host", MaxTTL: time.Hour, ConnectTimeout: 20 * time.Second})
	g := take(t, d, "x", time.Minute)
	release(t, g)
}

// TestPromoted: after a replica was promoted nothing is granted for MaxTTL, unless it has
// each commit. Leases that it has go on. Nobody goes back to the old primary.
func TestPromoted(t *testing.T) {
	for _, mode := range []Mode{Durable, Synchronous} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			p, r, _, url := pair(t, mode)
			d := open(t, url, &Options{Mode: mode, MaxTTL: testMaxTTL})
			g := take(t, d, "kept", time.Minute)
			if left := closed(t, d); left != 0 {
				t.Fatalf("closed for %v", left)
			}
			kept := ref(t, d, "kept")
			replicated(t, r, "kept")
			p.Kill()
			promote(t, r, mode)
			if left := closed(t, d); isClosed(left) != (mode == Durable) {
				t.Errorf("closed for %v on the new primary", left)
			}
			renewed(t, g)
			if mode == Synchronous {
				isHeld(t, d, "kept")
			}
			// The old primary is first in the URL, and can be written to.
			must(t, p.Start())
			d.wire.pool.drop(driver.Now())
			renewed(t, g)
			if info, err := d.Inspect(t.Context(), "kept"); err != nil || len(info.Holders) != 1 || d.wire.now().timeline != 2 {
				t.Errorf("Inspect = %+v, %v, on timeline %d", info, err, d.wire.now().timeline)
			}
			release(t, g)
			if mode == Synchronous { // the old one waits for its replica, whatever is asked
				return
			}
			// A client without another address grants and renews nothing there, also if its
			// connection, as one of a pooler, was there before.
			for what, ask := range map[string]func(*client) error{
				"TryAcquire": func(old *client) error { _, err := old.TryAcquire(t.Context(), request("y", time.Second)); return err },
				"Renew": func(old *client) error {
					_, err := old.wire.Renew(t.Context(), kept, time.Second)
					return participant.Worded(driver.FailureOf(err))
				},
			} {
				old := open(t, p.URL("pawl"), &Options{Mode: mode, MaxTTL: testMaxTTL})
				old.wire.run.Store(run{old.wire.now().system, 2})
				if err := ask(old); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "was replaced") {
					t.Errorf("%s at the old primary = %v; want ErrUnavailable", what, err)
				}
			}
		})
	}
}

// TestUnconfirmed: a commit whose wait for the replica was cancelled counts as uncertain.
// Repeated with the same lease it is the same grant, once a replica has it. A server that
// does not wait for a replica renews nothing.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	p, _, link, _ := pair(t, Synchronous)
	d := open(t, p.URL("pawl"), &Options{Mode: Synchronous, MaxTTL: testMaxTTL})
	link.Set(drivertest.BlackHole)
	done := make(chan error)
	req := request("x", time.Minute)
	go func() { _, err := d.TryAcquire(t.Context(), req); done <- err }()
	if !eventually(patience, func() bool {
		return sql(t, p, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0"
	}) {
		t.Fatal("nothing waits for the replica")
	}
	if err := <-done; !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("TryAcquire = %v; want ErrUncertain", err)
	}
	link.Set(drivertest.Healthy)
	g, err := d.Acquire(t.Context(), request("x", time.Minute)) // when the first one is undone
	if err != nil {
		t.Fatalf("again: %v", err)
	}
	renewed(t, g)
	sql(t, p, "ALTER SYSTEM SET synchronous_standby_names = ''")
	sql(t, p, "SELECT pg_reload_conf()")
	if !eventually(patience, func() bool { _, err = g.Renew(t.Context(), time.Minute); return err != nil }) || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Renew = %v; want ErrUnavailable", err)
	}
}

// TestQuarantineOutlives: a crash, and a restart, of a replica that was promoted do not
// end the time for which it grants nothing.
func TestQuarantineOutlives(t *testing.T) {
	t.Parallel()
	p, r, _, url := pair(t, Durable)
	d := open(t, url, &Options{MaxTTL: testMaxTTL})
	take(t, d, "x", time.Minute)
	replicated(t, r, "x") // the schema is there, too: a replica without it is unavailable, and not in quarantine
	p.Kill()
	promote(t, r, Durable)
	if left := closed(t, d); !isClosed(left) {
		t.Fatalf("closed for %v", left)
	}
	must(t, r.Restart())
	if left := closed(t, d); !isClosed(left) {
		t.Errorf("closed for %v after a crash of the new primary", left)
	}
	must(t, Bless(t.Context(), r.URL("pawl"), nil))
	must(t, r.Restart())
	if left := closed(t, d); left != 0 {
		t.Errorf("closed for %v after Bless and a crash", left)
	}
}

// TestReadOnly: connections to a server that can only be read from are dropped, and the
// next host is tried.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	p, r, _, url := pair(t, Durable)
	d := open(t, url, &Options{MaxTTL: testMaxTTL})
	g := take(t, d, "x", time.Minute)
	replicated(t, r, "x")
	sql(t, p, "ALTER SYSTEM SET default_transaction_read_only = on")
	sql(t, p, "SELECT pg_reload_conf()")
	promote(t, r, Durable)
	renewed(t, g)
	if left := closed(t, d); !isClosed(left) || d.wire.now().timeline != 2 {
		t.Errorf("closed for %v, on timeline %d", left, d.wire.now().timeline)
	}
}

// TestRecordOfAnother: a record that came with a dump of another server is none, also for
// clients that are connected through a pooler and have not bound themselves again.
func TestRecordOfAnother(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	d := open(t, p.URL("pawl"), &Options{Schema: "dump", MaxTTL: testMaxTTL})
	g := take(t, d, "x", time.Minute)
	sql(t, p, "UPDATE dump.epoch SET started = started - interval '1 second'")
	if left := closed(t, d); left != 0 {
		t.Errorf("closed for %v after an orderly restart", left)
	}
	sql(t, p, "UPDATE dump.epoch SET started = started - interval '1 second', system = 'another'; UPDATE dump.meta SET system = 'another'")
	if left := closed(t, d); !isClosed(left) {
		t.Errorf("closed for %v with the data of another server", left)
	}
	renewed(t, g)
}

// TestRolledBack: what the server rolled back because of another transaction is repeated. If
// that goes on, nothing was granted.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	d := open(t, p.URL("pawl"), &Options{Schema: "rolled", MaxTTL: testMaxTTL})
	sql(t, p, `CREATE SEQUENCE rolled.tries;
		CREATE FUNCTION rolled.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			CASE nextval('rolled.tries') WHEN 1 THEN RAISE 'x' USING ERRCODE = '40001'; WHEN 2 THEN RAISE 'x' USING ERRCODE = '40P01'; ELSE RETURN NEW; END CASE;
		END $$;
		CREATE TRIGGER fail BEFORE UPDATE ON rolled.lock FOR EACH ROW EXECUTE FUNCTION rolled.fail()`)
	g := take(t, d, "x", time.Minute)
	sql(t, p, "ALTER SEQUENCE rolled.tries RESTART")
	if _, err := g.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew = %v", err)
	}
	sql(t, p, "ALTER SEQUENCE rolled.tries RESTART")
	release(t, g)
	sql(t, p, "ALTER SEQUENCE rolled.tries MAXVALUE 2 CYCLE RESTART")
	if g, err := d.TryAcquire(t.Context(), request("x", time.Minute)); !errors.Is(err, driver.ErrUnavailable) || g != nil {
		t.Errorf("TryAcquire = %v, %v; want ErrUnavailable, and nothing to undo", g, err)
	}
}
