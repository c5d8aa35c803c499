// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

var errClosed = fmt.Errorf("pglock: %w", driver.ErrClosed)

// failure is the error of a request without a result.
type failure struct {
	driver.Failure
	repeat  bool // the server rolled it back because of another transaction
	drop    bool // the connections are useless: close them
	refused bool // the server refused the statement, and rolled it back
}

// Unwrap returns the part that package driver defines.
func (f *failure) Unwrap() error { return &f.Failure }

func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) }

// classify turns the error of a statement into a failure. The server rolls back a statement that it refuses. But
// if it also ends the connection, with FATAL, it may have committed before.
func (s *store) classify(ctx context.Context, err error) *failure {
	var pe *pgconn.PgError
	f := &failure{}
	switch {
	case errors.As(err, &pe) && !fatal(pe):
		f = refused(pe)
		f.Err = refusal(pe, fmt.Errorf("%s: %w", s.where, f.Err))
	case ctx.Err() != nil:
		f.Err, f.Maybe = ctx.Err(), !notSent(err)
	default:
		f.Err, f.Silent, f.Maybe = s.explain(err), true, !notSent(err)
	}
	return f
}

// notSent reports whether the server has certainly not run a statement: it was not sent, or its session had
// already ended because it was idle.
func notSent(err error) bool {
	var pe *pgconn.PgError
	return pgconn.SafeToRetry(err) ||
		errors.As(err, &pe) && pe.Severity == "FATAL" && (pe.Code == "57P05" || pe.Message == "client_idle_timeout")
}

// fatal reports whether the error has ended the connection. A pooler that has lost its server sends class 08.
func fatal(pe *pgconn.PgError) bool {
	return pe.Severity == "FATAL" || pe.Severity == "PANIC" || strings.HasPrefix(pe.Code, "08") || strings.HasPrefix(pe.Code, "57P")
}

// refused returns the failure for a statement that the server has rolled back.
func refused(pe *pgconn.PgError) *failure {
	f := &failure{refused: true}
	f.Err = pe
	lasting := func(do string) {
		f.Lasting = true
		f.Err = fmt.Errorf("%w: %s", pe, do)
	}
	switch pe.Code {
	case "40001", "40P01", "55P03": // serialization, deadlock, lock not available
		f.repeat = true
	case "25006", "55000": // a replica
		f.drop = true
		f.Err = fmt.Errorf("this server is a replica, or transactions are read-only for this user (default_transaction_read_only): %w", pe)
	case "57014":
		if strings.Contains(pe.Message, "statement timeout") {
			f.Err = fmt.Errorf("%w: this user's statement_timeout is too short: ALTER ROLE … SET statement_timeout = '10s'", pe)
		}
	case "0A000": // the functions were replaced
		f.drop = true
	case "42501":
		lasting("grant this user USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on its tables")
	case "3F000", "42P01", "42883", "42703":
		lasting("the schema is missing or is of another version: apply pglock.Schema")
	case "25000", "25P01":
		lasting("use read committed: ALTER ROLE … RESET default_transaction_isolation")
	}
	return f
}

// refusal adds to err the kind of the refusal, which programs can test for.
func refusal(pe *pgconn.PgError, err error) error {
	switch {
	case pe.Code == "42501", strings.HasPrefix(pe.Code, "28"):
		return unavailable(storekit.OfKind(storekit.ErrDenied, err))
	case strings.HasPrefix(pe.Code, "3"), strings.HasPrefix(pe.Code, "42"), strings.HasPrefix(pe.Code, "25") && pe.Code != "25006":
		return storekit.OfKind(storekit.ErrConfig, err)
	}
	return err
}

// explain adds the server to an error. It hides the deadline of the request: a context error must come from the
// caller's context.
func (s *store) explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) {
		return fmt.Errorf("%s: no answer in time: does the server run, and does it wait for a replica?", s.where)
	}
	return fmt.Errorf("%s: %s", s.where, err.Error())
}
