// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// run identifies the data by the server and the timeline on which it writes. The promotion of a replica and the
// restore of a backup begin a new timeline.
type run struct {
	system   string
	timeline int
}

// make makes the schema if it is missing.
func (s *store) make(ctx context.Context, c *conn) error {
	res := c.ExecParams(ctx, "SELECT version FROM "+quote(s.schema)+".meta", nil, nil, nil, nil).Read()
	var pe *pgconn.PgError
	missing := errors.As(res.Err, &pe) && (pe.Code == "42P01" || pe.Code == "3F000")
	switch {
	case res.Err != nil && !missing:
		return s.classify(ctx, res.Err)
	case res.Err == nil && len(res.Rows) == 1:
		if have := integer(res.Rows[0][0]); have != version {
			return s.wrong("the schema %s is of version %d, and this client works with version %d only: use a pawl that has version %d, or another schema (?schema=NAME)",
				s.schema, have, version, have)
		}
		return nil
	}
	// Only one client at a time applies the schema, as two would make each other fail. It is one message, and so
	// one transaction.
	sql := "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('pawl schema', 0));\n" + Schema(s.schema)
	if err := c.Exec(ctx, sql).Close(); err != nil {
		f := s.classify(ctx, err)
		if errors.As(err, &pe) && pe.Code == "42501" {
			return fmt.Errorf("%w (while making the schema %s: grant this user CREATE on the database, or apply pglock.Schema as another user)", f, s.schema)
		}
		return f
	}
	return nil
}

// bind asks for the run of the server, whose record the server makes if there is none. asked is when the request
// was sent that met another run. If another call has bound the store since, bind does nothing.
func (s *store) bind(ctx context.Context, asked driver.Instant) error {
	s.binding.Lock()
	defer s.binding.Unlock()
	if s.boundAt > asked {
		return nil
	}
	a, err := s.call(ctx, "bind", string(s.mode), num(s.limit.own.Microseconds()), s.limit.who)
	if err != nil {
		return err
	}
	row := a.row
	is := run{string(row[0]), integer(row[1])}
	mode := Mode(row[2])
	closed := micros(row[5]) - micros(row[7])
	switch old := s.replaced(is); {
	case old != nil:
		s.pool.drop(driver.Now())
		return &driver.Failure{Err: fmt.Errorf("%s: %w", s.where, old)}
	case string(row[8]) != "read committed":
		return s.wrong("transactions of this user are %s: use read committed: ALTER ROLE … RESET default_transaction_isolation", row[8])
	case mode != s.mode:
		return &driver.Failure{Err: storekit.Disagreef("the mode is %s here, but %s in the store: set it to %s (?mode=%s)", s.mode, mode, mode, mode), Lasting: true}
	}
	s.boundAt = a.sent
	s.limit.learn(storekit.MaxTTL{TTL: micros(row[3]), By: string(row[4])})
	if was := s.run.Swap(is); was != nil && was != is {
		s.pool.drop(driver.Now())
		s.listener.reconnect()
		s.events.Put(driver.Event{Kind: driver.Missed})
	}
	if closed > 0 {
		s.events.Put(driver.Event{Kind: driver.Told, News: driver.News{Server: s.where, Closed: closed}})
	}
	return nil
}

// replaced returns an error unless the server has the data to which the store is bound, or a later timeline of the
// data. Another server may lack leases, and may still have leases that have ended.
func (s *store) replaced(is run) error {
	switch was := s.now(); {
	case was.system != "" && was.system != is.system:
		return fmt.Errorf("this is another server than before (%s instead of %s), which knows no lease: name the one that has them, or restart the clients if it is gone", is.system, was.system)
	case was.timeline > is.timeline:
		return fmt.Errorf("this server was replaced: it is on timeline %d, and the store on %d: name the new primary", is.timeline, was.timeline)
	}
	return nil
}

// wrong returns the failure for a server that must not be used.
func (s *store) wrong(format string, args ...any) error {
	return &driver.Failure{Lasting: true, Err: storekit.OfKind(storekit.ErrConfig, fmt.Errorf("%s: %s", s.where, fmt.Sprintf(format, args...)))}
}

// now returns the run to which the store is bound.
func (s *store) now() run {
	is, _ := s.run.Load().(run)
	return is
}
