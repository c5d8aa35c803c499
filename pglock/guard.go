// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Guard calls lease.Guard for a transaction of pgx. The transaction can commit only if the lease is held, and only
// before the name is granted to another client. After an error it cannot commit.
func Guard(ctx context.Context, lease *pawl.Lease, tx pgx.Tx) error { return guard(ctx, lease, tx) }

// GuardSQL does what Guard does, for a transaction of database/sql with a driver for PostgreSQL.
func GuardSQL(ctx context.Context, lease *pawl.Lease, tx *dbsql.Tx) error {
	return guard(ctx, lease, tx)
}

func guard(ctx context.Context, lease *pawl.Lease, tx any) error {
	err := lease.Guard(ctx, tx)
	if errors.Is(err, errors.ErrUnsupported) { // the lease may be in a store of another kind
		if t, bad := transactionOf(tx); bad == nil {
			t.spoil(ctx)
		}
	}
	return err
}

// transaction is a transaction of pgx or database/sql.
type transaction struct {
	exec func(ctx context.Context, sql string, args ...any) error
	// abandon ends the transaction without the server's help.
	abandon func(ctx context.Context)
}

// transactionOf returns the transaction tx. It refuses a connection and a pool, where a guard would last for one
// statement.
func transactionOf(tx any) (*transaction, error) {
	if v := reflect.ValueOf(tx); v.Kind() == reflect.Pointer && v.IsNil() {
		tx = nil
	}
	switch t := tx.(type) {
	case nil:
		return nil, fmt.Errorf("pglock: the transaction is nil: %w", errors.ErrUnsupported)
	case pgx.Tx:
		return &transaction{
			func(ctx context.Context, sql string, args ...any) error {
				_, err := t.Exec(ctx, sql, args...)
				return err
			},
			func(ctx context.Context) { t.Conn().Close(ctx) }, // Rollback would end only a nested transaction
		}, nil
	case interface { // a *sql.Tx, or a type that embeds one
		ExecContext(ctx context.Context, query string, args ...any) (dbsql.Result, error)
		Commit() error
		Rollback() error
	}:
		return &transaction{
			func(ctx context.Context, sql string, args ...any) error {
				_, err := t.ExecContext(ctx, sql, args...)
				return err
			},
			func(context.Context) { _ = t.Rollback() },
		}, nil
	}
	return nil, fmt.Errorf("pglock: %T is no transaction of pgx or database/sql: %w", tx, errors.ErrUnsupported)
}

// guardLost is the code with which pawl.guard fails if the lease has ended.
const guardLost = "PAWL1"

// fails is a statement that fails. After it the server does not commit the transaction.
const fails = `DO 'BEGIN RAISE ''the lease does not guard this transaction'' USING ERRCODE = ''` + guardLost + `''; END'`

// code returns the SQLSTATE if the server has refused a statement, which also fails the transaction. Otherwise it
// returns "". It knows the errors of pgx and of lib/pq.
func code(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// spoil makes sure that the transaction cannot commit, even if ctx has ended.
func (t *transaction) spoil(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	err := t.exec(ctx, fails)
	if code(err) == "" && !errors.Is(err, pgx.ErrTxClosed) { // after ErrTxClosed the connection may be in use elsewhere
		t.abandon(ctx)
	}
}

// Guard implements driver.Guarder. The statement locks the lease's row in tx, and fails if the lease has ended.
// After that the caller cannot commit, even if it ignores the error. On another database the statement fails
// because the schema or the lease is missing.
func (s *store) Guard(ctx context.Context, l driver.Ref, token uint64, tx any, ended error) error {
	t, err := transactionOf(tx)
	if err != nil {
		return err
	}
	if ended != nil {
		t.spoil(ctx)
		return ended
	}
	err = t.exec(ctx, statement(s.schema, "guard", 3), l.Name, l.Lease, int64(token))
	switch {
	case err != nil && code(err) == "": // the statement may not have been sent
		t.spoil(ctx)
	case code(err) == guardLost:
		return &driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("lease %s with token %d has ended in the store of this transaction", l.Lease, token)}
	}
	return err
}
