// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/fence"
)

// database is a database with the table of package fence, and one for the history of
// a resource, whose rows are numbered in the order in which they were written.
type database struct {
	*sql.DB
	url     string
	dialect fence.Dialect
	write   string // the statement
}

func openPostgres(t testing.TB) *database {
	t.Helper()
	return open(t, "pgx", servers.StartPostgres(t).URL("pawl"), fence.PostgreSQL,
		`CREATE TABLE history (seq BIGINT GENERATED ALWAYS AS IDENTITY, resource TEXT, token BIGINT)`,
		`INSERT INTO history (resource, token) VALUES ($1, $2)`)
}

func openSQLite(t testing.TB) *database {
	t.Helper()
	// It waits for so long whatever the context says; then the transaction is tried again.
	url := "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(100)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	return open(t, "sqlite", url, fence.SQLite,
		`CREATE TABLE history (seq INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT, token BIGINT)`,
		`INSERT INTO history (resource, token) VALUES (?, ?)`)
}

func open(t testing.TB, driver, url string, dialect fence.Dialect, create, write string) *database {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, s := range []string{fence.Schema, fence.Schema, create} { // the schema may be there already
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	return &database{db, url, dialect, write}
}

func onEveryDatabase(t *testing.T, f func(t *testing.T, db *database)) {
	t.Run("postgres", func(t *testing.T) { f(t, openPostgres(t)) })
	t.Run("sqlite", func(t *testing.T) { f(t, openSQLite(t)) })
}

// again reports whether the database asks to try the transaction again.
func again(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == 5 // SQLITE_BUSY
}

// in runs f in a transaction, again and again while the database asks for it.
func (db *database) in(ctx context.Context, level sql.IsolationLevel, f func(tx *sql.Tx) error) (tries int, err error) {
	for tries = 1; ; tries++ {
		err = func() error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := f(tx); err != nil {
				return err
			}
			return tx.Commit()
		}()
		if err == nil || !again(err) {
			return tries, err
		}
	}
}

// save writes a row of the history, fenced.
func (db *database) save(ctx context.Context, level sql.IsolationLevel, resource string, token pawl.Token) (tries int, err error) {
	return db.in(ctx, level, func(tx *sql.Tx) error {
		if err := db.dialect.Install(ctx, tx, resource, token); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, db.write, resource, int64(token))
		return err
	})
}

// history returns the tokens of a resource in the order of the writes.
func (db *database) history(t testing.TB, resource string) (tokens []int64) {
	t.Helper()
	rows, err := db.Query("SELECT token FROM history WHERE resource = '" + resource + "' ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var token int64
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// violation returns the first token that is below one before it.
func violation(tokens []int64) error {
	for i := 1; i < len(tokens); i++ {
		if tokens[i] < tokens[i-1] {
			return fmt.Errorf("row %d has token %d, after %d", i, tokens[i], tokens[i-1])
		}
	}
	return nil
}

// levels are the isolation levels that databases tell apart; the driver of SQLite knows
// only its own.
func (db *database) levels() []sql.IsolationLevel {
	if db.dialect == fence.SQLite {
		return []sql.IsolationLevel{sql.LevelDefault}
	}
	return []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
}
