// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestGuardIsShown: as long as nothing but a transaction keeps a name, everybody is told which
// one that is: whoever looks, lists, asks, waits or breaks, also a user with few rights.
func TestGuardIsShown(t *testing.T) {
	t.Parallel()
	p := server(t)
	mine := open(t, p.URL("pawl"), wide)
	sql(t, p, "CREATE USER stranger; GRANT USAGE ON SCHEMA pawl TO stranger; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pawl TO stranger")
	begin := beginners(t, p)["pgx"]
	for what, end := range map[string]func(d *client, g *participant.Lease, name string) error{
		"expired": func(_ *client, _ *participant.Lease, name string) error { expire(t, p, name); return nil },
		"release": func(_ *client, g *participant.Lease, _ string) error { return g.Release(t.Context()) },
		"break": func(d *client, _ *participant.Lease, name string) error {
			return d.Break(t.Context(), name, ref(t, d, name).Lease, nil, "test")
		},
	} {
		for user, knows := range map[string]bool{"pawl": true, "stranger": false} {
			for _, shared := range []bool{false, true} {
				t.Run(fmt.Sprint(what, "/", user, "/shared=", shared), func(t *testing.T) {
					d := open(t, p.URL(user), wide)
					req := request("kept/"+t.Name(), time.Minute)
					req.Shared = shared
					g := ask(t, mine, req)
					tx := begin()
					must(t, errors.Join(tx.exec("SET application_name = 'billing'"), g.Guard(t.Context(), tx.tx, nil)))
					if h := holders(t, d, req.Name); len(h) != 1 || h[0].Transaction != nil {
						t.Errorf("the holders of a lease that is held are %+v", h)
					}
					must(t, end(d, g, req.Name))
					keeps := func(how string, h []driver.Held) {
						t.Helper()
						if len(h) != 1 || h[0].Lease != req.Lease || h[0].Transaction == nil {
							t.Fatalf("%s: %+v; want the lease, and its transaction", how, h)
						}
						is := *h[0].Transaction
						since := is.Since
						is.Since = time.Time{}
						want := driver.Transaction{PID: tx.pid(), Application: "billing"}
						if is != want || since.IsZero() == knows || knows && time.Since(since).Abs() > time.Hour {
							t.Errorf("%s: %+v since %v; want %+v", how, is, since, want)
						}
					}
					keeps("Inspect", holders(t, d, req.Name))
					infos, err := d.List(t.Context(), req.Name)
					if err != nil || len(infos) != 1 {
						t.Fatalf("List = %v, %v", infos, err)
					}
					keeps("List", infos[0].Holders)
					var held *driver.HeldError
					if _, err := d.TryAcquire(t.Context(), request(req.Name, time.Second)); !errors.As(err, &held) {
						t.Fatalf("TryAcquire = %v", err)
					}
					keeps("TryAcquire", held.Info.Holders)
					if err := d.Break(t.Context(), req.Name, req.Lease, nil, "again"); !errors.As(err, &held) {
						t.Fatalf("Break = %v", err)
					}
					keeps("Break", held.Info.Holders)
					if g, err := d.Adopt(t.Context(), req.Name, req.Lease); !errors.Is(err, driver.ErrLost) {
						t.Errorf("Adopt = %v, %v; want ErrLost", g, err)
					}
					tx.abort()
					if h := holders(t, d, req.Name); len(h) != 0 {
						t.Errorf("the transaction has ended, and the holders are %+v", h)
					}
				})
			}
		}
	}
}

// TestClosedViews: a user who may not read the views of the server sees the leases, but not which transactions
// keep names whose leases have ended.
func TestClosedViews(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	mine := open(t, p.URL("pawl"), wide)
	sql(t, p, "CREATE USER stranger; GRANT USAGE ON SCHEMA pawl TO stranger; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pawl TO stranger;"+
		"REVOKE SELECT ON pg_stat_activity, pg_locks FROM PUBLIC")
	d := open(t, p.URL("stranger"), wide)
	take(t, mine, "held", time.Minute)
	if h := holders(t, d, "held"); len(h) != 1 {
		t.Errorf("the holders are %+v; want one", h)
	}
	if infos, err := d.List(t.Context(), ""); err != nil || len(infos) != 1 {
		t.Errorf("List = %v, %v; want one name", infos, err)
	}
	g := take(t, mine, "kept", time.Minute)
	tx := beginners(t, p)["pgx"]()
	must(t, g.Guard(t.Context(), tx.tx, nil))
	release(t, g)
	if _, err := d.TryAcquire(t.Context(), request("kept", time.Second)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire of a name that a transaction keeps = %v; want ErrHeld", err)
	}
}

// TestGuardTellsWaiters: a call that has waited in vain for a transaction to end says so, and
// nobody leads with a lease that has ended.
func TestGuardTellsWaiters(t *testing.T) {
	t.Parallel()
	p := server(t)
	locks, err := Open(t.Context(), p.URL("pawl"), wide)
	must(t, err)
	defer locks.Close()
	lease, err := locks.Acquire(t.Context(), "kept/waits")
	must(t, err)
	tx := beginners(t, p)["pgx"]()
	defer tx.abort()
	must(t, errors.Join(lease.Guard(t.Context(), tx.tx), lease.Release(t.Context())))
	// A call that gives up looks for 50 ms, which is not enough on a machine with much else to do.
	want := fmt.Sprintf("server process %d", tx.pid())
	told := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = locks.Acquire(ctx, "kept/waits")
		return errors.Is(err, pawl.ErrHeld) && strings.Contains(err.Error(), want)
	}
	if !eventually(patience, told) {
		t.Errorf("Acquire = %v; want ErrHeld with %q", err, want)
	}
	for leader, err := range locks.Observe(t.Context(), "kept/waits") {
		if err != nil || leader.Lease != "" {
			t.Errorf("the leader is %+v, %v; want none", leader, err)
		}
		break
	}
}

// TestInspectExpires: when a lease ends is told by the clock of whoever looks.
func TestInspectExpires(t *testing.T) {
	t.Parallel()
	p := server(t)
	sql(t, p, Schema("ahead"))
	sql(t, p, `CREATE OR REPLACE FUNCTION "ahead".us() RETURNS bigint LANGUAGE sql VOLATILE AS
		$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 3600000000 $$`)
	d := open(t, p.URL("pawl"), &Options{Schema: "ahead"})
	take(t, d, "x", 20*time.Second)
	if h := holders(t, d, "x"); len(h) != 1 || time.Until(h[0].Expires) > 20*time.Second || time.Until(h[0].Expires) < -patience {
		t.Errorf("the holders are %+v; want one that expires in 20s", h)
	}
}

func holders(t testing.TB, d *client, name string) []driver.Held {
	t.Helper()
	info, err := d.Inspect(t.Context(), name)
	must(t, err)
	return info.Holders
}
