// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl"
)

// Dialect is the variant of SQL that a database understands.
type Dialect int

const (
	PostgreSQL Dialect = iota + 1 // 9.5 or later
	SQLite                        // 3.24 or later
)

// Schema makes the table of Install if it is missing. All dialects use the same SQL. If several clients run it at
// once, PostgreSQL returns an error to some of them (SQLSTATE 23505 or 42710), although the table is there. Put it
// into a migration, or run it again.
const Schema = `CREATE TABLE IF NOT EXISTS pawl_fence (
	resource TEXT PRIMARY KEY,
	token BIGINT NOT NULL
)`

// install writes the row even if the token is the same. So if a transaction read before another one wrote, the
// database makes it fail at REPEATABLE READ and SERIALIZABLE, and the caller tries again.
var (
	install = map[Dialect]string{
		PostgreSQL: `INSERT INTO pawl_fence (resource, token) VALUES ($1, $2)
			ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE pawl_fence.token <= excluded.token`,
		SQLite: `INSERT INTO pawl_fence (resource, token) VALUES (?, ?)
			ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE pawl_fence.token <= excluded.token`,
	}
	look = map[Dialect]string{
		PostgreSQL: `SELECT token FROM pawl_fence WHERE resource = $1`,
		SQLite:     `SELECT token FROM pawl_fence WHERE resource = ?`,
	}
)

// Install raises the resource's token in the user's transaction. It should be the first statement: at READ
// COMMITTED, data that were read earlier may be out of date. Until the transaction ends, Install for the same
// resource waits in all other transactions. So after Install reading and writing are safe at every isolation
// level. A rollback takes the token back together with the writes. So does a rollback to an earlier savepoint,
// after which the rest of the transaction is not fenced.
//
// If the resource has seen a larger token, Install returns a *StaleError. Otherwise it returns the error of Check
// or of the database. Roll back after an error. If the database asks to try again (SQLSTATE 40001 and 40P01,
// SQLITE_BUSY), repeat the whole transaction with the same token. With SQLite use BEGIN IMMEDIATE or call Install
// first, and set a busy_timeout.
//
// If your table has a column for the token, a single statement needs no Install:
//
//	UPDATE invoice SET total = $1, token = $2 WHERE id = $3 AND token <= $2
//
// If that changes no row, the token is stale or the row does not exist.
func (d Dialect) Install(ctx context.Context, tx *sql.Tx, resource string, token pawl.Token) error {
	if install[d] == "" {
		return fmt.Errorf("fence: resource %q: %d is no Dialect: use fence.PostgreSQL or fence.SQLite", resource, d)
	}
	return raise(ctx, resource, token, func() (int64, error) {
		result, err := tx.ExecContext(ctx, install[d], resource, int64(token))
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}, func(seen *int64) error {
		return tx.QueryRowContext(ctx, look[d], resource).Scan(seen)
	})
}

// PgxTx is a pgx.Tx of any version. Pools and connections do not have these methods: with them Install would raise
// the token in a separate transaction.
type PgxTx[T PgxTag, R PgxRow] interface {
	Exec(ctx context.Context, sql string, args ...any) (T, error)
	QueryRow(ctx context.Context, sql string, args ...any) R
	Commit(ctx context.Context) error
}

type (
	// PgxTag is a pgconn.CommandTag.
	PgxTag interface{ RowsAffected() int64 }
	// PgxRow is a pgx.Row.
	PgxRow interface{ Scan(dest ...any) error }
)

// InstallPgx does what PostgreSQL.Install does, for a transaction of pgx:
//
//	err := fence.InstallPgx(ctx, tx, "invoice/42", lease.Token())
//
// In a nested transaction the token stays raised until the nested transaction is rolled back, as after a
// savepoint.
func InstallPgx[T PgxTag, R PgxRow](ctx context.Context, tx PgxTx[T, R], resource string, token pawl.Token) error {
	return raise(ctx, resource, token, func() (int64, error) {
		tag, err := tx.Exec(ctx, install[PostgreSQL], resource, int64(token))
		if err != nil {
			return 0, err
		}
		return tag.RowsAffected(), nil
	}, func(seen *int64) error {
		return tx.QueryRow(ctx, look[PostgreSQL], resource).Scan(seen)
	})
}

// raise raises a token. install returns the number of rows that it changed. look reads the token.
func raise(ctx context.Context, resource string, token pawl.Token, install func() (int64, error), look func(*int64) error) error {
	if err := Check(resource, token); err != nil {
		return err
	}
	n, err := install()
	if err != nil {
		return sqlError(ctx, resource, err)
	}
	if n == 1 {
		return nil
	}
	// install did not change the row, but it locked it. So look reads the token that install saw.
	var seen int64
	if err := look(&seen); err != nil {
		return sqlError(ctx, resource, err)
	}
	if seen <= int64(token) {
		return fmt.Errorf("fence: resource %q: the table pawl_fence has token %d and did not take %d: has it a trigger or a policy?", resource, seen, token)
	}
	return &StaleError{resource, token, pawl.Token(seen)}
}

func sqlError(ctx context.Context, resource string, err error) error {
	if cerr := ctx.Err(); cerr != nil && errors.Is(err, cerr) {
		return err
	}
	return fmt.Errorf("fence: resource %q: raise the token in the table pawl_fence, which fence.Schema makes: %w", resource, err)
}
