// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	dbsql "database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// TestGuardFails: after an error of Guard, whatever it was, the transaction is not committed,
// although the caller ignores it.
func TestGuardFails(t *testing.T) {
	t.Parallel()
	p := server(t)
	waits := make(chan string, 100)
	opts := *wide
	opts.Observer.Waiting = func(pawl.Event) { waits <- "" }
	locks, err := Open(t.Context(), p.URL("pawl"), &opts)
	must(t, err)
	defer locks.Close()
	foreign, err := memlock.Open(nil)
	must(t, err)
	defer foreign.Close()
	other := open(t, p.URL("pawl"), wide)
	sql(t, p, "CREATE TABLE guard_fails (what text)")
	hold := func(c *pawl.Client, name string) *pawl.Lease {
		t.Helper()
		l, err := c.Acquire(t.Context(), name)
		must(t, err)
		return l
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for what, c := range map[string]struct {
		ctx   context.Context
		lease func(name string) *pawl.Lease
		want  error
	}{
		"released": {t.Context(), func(name string) *pawl.Lease {
			l := hold(locks, name)
			release(t, l)
			return l
		}, pawl.ErrReleased},
		"handed over": {t.Context(), func(name string) *pawl.Lease {
			l := hold(locks, name)
			got := make(chan *pawl.Lease)
			go func() { l, _ := locks.Acquire(t.Context(), name); got <- l }()
			<-waits
			release(t, l)
			if next := <-got; next != nil {
				t.Cleanup(func() { next.Release(context.Background()) })
			}
			return l
		}, pawl.ErrReleased},
		"lost": {t.Context(), func(name string) *pawl.Lease {
			l := hold(locks, name)
			if err := other.Break(t.Context(), name, l.ID(), nil, "test"); err != nil {
				t.Error(err)
			}
			<-l.Done()
			take(t, other, name, time.Minute)
			return l
		}, pawl.ErrLost},
		"context":         {over, func(name string) *pawl.Lease { return hold(locks, name) }, context.Canceled},
		"another store's": {t.Context(), func(name string) *pawl.Lease { return hold(foreign, name) }, errors.ErrUnsupported},
	} {
		for way, begin := range beginners(t, p) {
			name := "guard fails/" + what + "/" + way
			l := c.lease(name)
			tx := begin()
			if err := tx.exec("INSERT INTO guard_fails VALUES ('" + name[len("guard fails/"):] + "')"); err != nil && what != "another store's" {
				t.Error(err)
			}
			switch its := tx.tx.(type) {
			case pgx.Tx:
				err = Guard(c.ctx, l, its)
			case *dbsql.Tx:
				err = GuardSQL(c.ctx, l, its)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%s: Guard = %v; want %v", name, err, c.want)
			}
			if err := tx.commit(); err == nil {
				t.Errorf("%s: the transaction was committed", name)
			}
			l.Release(context.Background())
		}
	}
	if n := sql(t, p, "SELECT string_agg(what, ', ') FROM guard_fails"); n != "" {
		t.Errorf("these writes are there: %s", n)
	}
	l := hold(locks, "guard fails/nil")
	for _, err := range []error{GuardSQL(t.Context(), l, nil), Guard(t.Context(), l, nil), Guard(t.Context(), l, (*pgxpool.Tx)(nil))} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Guard of a transaction that is nil = %v; want ErrUnsupported", err)
		}
	}
}

// TestGuardBusy: Guard while the rows of a query are read, which pgx sends nothing for, ends the
// transaction, too.
func TestGuardBusy(t *testing.T) {
	t.Parallel()
	p := server(t)
	g := take(t, open(t, p.URL("pawl"), wide), "guard busy", time.Minute)
	tx := beginners(t, p)["pgx"]()
	rows, err := tx.tx.(pgx.Tx).Query(t.Context(), "SELECT generate_series(1, 100000)")
	must(t, err)
	if err := g.Guard(t.Context(), tx.tx, nil); err == nil {
		t.Error("Guard = nil on a connection that is busy")
	}
	rows.Close()
	if err := tx.commit(); err == nil {
		t.Error("the transaction was committed")
	}
}

// TestGuardSavepoint: within a savepoint, which may be rolled back alone, there is no guard. One of
// the transaction itself stays.
func TestGuardSavepoint(t *testing.T) {
	t.Parallel()
	p := server(t)
	mine, other := open(t, p.URL("pawl"), wide), open(t, p.URL("pawl"), wide)
	sql(t, p, "CREATE TABLE savepoints (n int)")
	for what, kind := range map[string]driver.Request{"writer": {}, "reader": {Shared: true}} {
		for way, begin := range beginners(t, p) {
			req := request("savepoint/"+what+way, time.Minute)
			req.Shared = kind.Shared
			g := ask(t, mine, req)
			guard := func(tx any) error { return g.Guard(t.Context(), tx, nil) }

			tx := begin()
			must(t, tx.exec("SAVEPOINT a"))
			if err := guard(tx.tx); err == nil || errors.Is(err, driver.ErrLost) || code(err) != "PAWL2" {
				t.Errorf("%s: Guard within a savepoint = %v; want PAWL2", req.Name, err)
			}
			if err := tx.exec("RELEASE a"); err == nil {
				t.Errorf("%s: the savepoint was released", req.Name)
			}
			tx.abort()

			tx = begin()
			beside := begin() // guards the lease as well, so that the row does not tell who has locked it
			if err := errors.Join(guard(tx.tx), guard(beside.tx), tx.exec("SAVEPOINT a"), tx.exec("INSERT INTO savepoints VALUES (1)"),
				guard(tx.tx), tx.exec("ROLLBACK TO a"), beside.commit()); err != nil {
				t.Errorf("%s: Guard again within a savepoint: %v", req.Name, err)
			}
			release(t, g)
			isHeld(t, other, req.Name)
			if err := tx.commit(); err != nil {
				t.Error(err)
			}
			take(t, other, req.Name, time.Minute)
		}
	}
	tx := beginners(t, p)["pgx"]()
	nested, err := tx.tx.(pgx.Tx).Begin(t.Context())
	must(t, err)
	if err := take(t, mine, "savepoint/nested", time.Minute).Guard(t.Context(), nested, nil); code(err) != "PAWL2" {
		t.Errorf("Guard of a nested transaction = %v; want PAWL2", err)
	}
	if err := nested.Commit(t.Context()); err == nil {
		t.Error("the nested transaction was committed")
	}
	if err := tx.commit(); err == nil {
		t.Error("the transaction was committed with the nested one in it")
	}
}
