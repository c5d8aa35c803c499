// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
)

var _ driver.Guarder = (*grant)(nil)

// pgxTx is a pgx.Tx. A connection or a pool, which have no Commit, would lock the row for
// one statement, and guard nothing.
type pgxTx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Commit(ctx context.Context) error
}

// sqlTx is a *sql.Tx.
type sqlTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (dbsql.Result, error)
	Commit() error
}

// guardLost is the code with which pawl.guard fails.
const guardLost = "PAWL1"

// Guard implements driver.Guarder. The lock on the lease's row, and the failure if the
// lease has ended, are part of tx: the caller cannot commit although it ignores the
// error. A tx on another database fails for lack of the schema, or of the lease.
func (g *grant) Guard(ctx context.Context, tx any) error {
	if err := g.over(); err != nil {
		return err
	}
	g.s.mu.Lock()
	g.spare = 0 // the successor would not wait for the end of tx
	g.s.mu.Unlock()
	var err error
	switch t := tx.(type) {
	case pgxTx:
		_, err = t.Exec(ctx, g.s.sql.guard, g.name, g.lease, int64(g.token))
	case sqlTx:
		_, err = t.ExecContext(ctx, g.s.sql.guard, g.name, g.lease, int64(g.token))
	default:
		return fmt.Errorf("pglock: %T is no transaction of pgx or database/sql: %w", tx, errors.ErrUnsupported)
	}
	var state interface{ SQLState() string } // of pgx and of lib/pq
	switch {
	case err == nil:
		return nil
	case errors.As(err, &state) && state.SQLState() == guardLost:
		return &driver.LostError{Reason: driver.Gone, Err: errors.New("lease " + g.lease + " with token " + strconv.FormatUint(g.token, 10) + " has ended in the store of this transaction")}
	}
	return err
}
