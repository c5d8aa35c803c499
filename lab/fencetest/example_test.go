// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	_ "modernc.org/sqlite"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
	"github.com/pawl-go/pawl/memlock"
)

// A transaction raises the token, reads and writes. Whoever had the lease before is
// refused then. In a program, memlock is one of the other stores.
func Example_install() {
	ctx := context.Background()
	db := exampleDB(fence.Schema,
		`CREATE TABLE invoice (id INTEGER PRIMARY KEY, total INTEGER)`,
		`INSERT INTO invoice VALUES (42, 0)`)
	defer db.Close()
	locks, err := memlock.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	add := func(ctx context.Context, amount int, token pawl.Token) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fence.SQLite.Install(ctx, tx, "invoice/42", token); err != nil {
			return err
		}
		var total int
		if err := tx.QueryRow(`SELECT total FROM invoice WHERE id = 42`).Scan(&total); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE invoice SET total = ? WHERE id = 42`, total+amount); err != nil {
			return err
		}
		return tx.Commit()
	}

	late, err := locks.Acquire(ctx, "invoice/42")
	if err != nil {
		log.Fatal(err)
	}
	late.Release(ctx) // or it ends while its holder is paused
	fmt.Println(locks.Do(ctx, "invoice/42", func(ctx context.Context, lease *pawl.Lease) error {
		return add(ctx, 10, lease.Token()) // ctx ends with the lease, and so does the transaction
	}))
	fmt.Println(add(ctx, 5, late.Token()))

	// Output:
	// <nil>
	// fence: token 1 is older than 2, which resource "invoice/42" has seen: the lease it came from has ended
}

// A write that is one statement needs no Install, if the row has a column for the
// token. It is the row that remembers then, and the error has to be made by hand.
func Example_column() {
	ctx := context.Background()
	db := exampleDB(
		`CREATE TABLE invoice (id INTEGER PRIMARY KEY, total INTEGER, token BIGINT NOT NULL DEFAULT 0)`,
		`INSERT INTO invoice (id, total) VALUES (42, 0)`)
	defer db.Close()

	set := func(total int, token pawl.Token) error {
		if err := fence.Check("invoice/42", token); err != nil {
			return err
		}
		// In PostgreSQL: UPDATE invoice SET total = $1, token = $2 WHERE id = $3 AND token <= $2
		r, err := db.ExecContext(ctx, `UPDATE invoice SET total = ?, token = ? WHERE id = ? AND token <= ?`, total, token, 42, token)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return fmt.Errorf("invoice/42: token %d: %w", token, fence.ErrStale) // or there is no such invoice
	}
	fmt.Println(set(10, 34))
	fmt.Println(set(15, 33))

	// Output:
	// <nil>
	// invoice/42: token 33: stale fencing token
}

// exampleDB returns a database in memory.
func exampleDB(statements ...string) *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			log.Fatal(err)
		}
	}
	return db
}
