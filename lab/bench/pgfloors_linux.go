// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func init() {
	enlist(
		&contender{name: "two updates of a row", kind: floor, open: openRows("")},
		&contender{name: "two updates of a row, the second async", kind: floor, open: openRows(" AND set_config('synchronous_commit', 'off', true) = 'off'")},
		&contender{name: "NOTIFY to delivery", kind: floor, open: openBell},
	)
}

// pgPool returns a pool of at most so many connections as most says.
func pgPool(ctx context.Context, w *world, most int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(w.Postgres)
	if err != nil {
		return nil, err
	}
	config.MaxConns = most
	return pgxpool.NewWithConfig(ctx, config)
}

// rows makes only the two round trips that a lock in a table needs. Each writes one small
// row. It uses as many connections as package pglock.
type rows struct {
	pool *pgxpool.Pool
	free string // the statement of the second round trip
}

// openRows returns a function that opens rows. and is appended to the second statement.
func openRows(and string) func(context.Context, *world, seat) (locker, error) {
	return func(ctx context.Context, w *world, _ seat) (locker, error) {
		pool, err := pgPool(ctx, w, 4)
		if err != nil {
			return nil, err
		}
		err = once(ctx, pool, `CREATE TABLE IF NOT EXISTS floor (name text COLLATE "C" PRIMARY KEY, n int NOT NULL) WITH (fillfactor = 50)`)
		return rows{pool, "UPDATE floor SET n = 0 WHERE name = $1 AND n = 1" + and}, err
	}
}

// once runs a statement that creates something, under a lock, so that participants run it one after the other.
func once(ctx context.Context, pool *pgxpool.Pool, statement string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('bench', 0))"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, statement)
		return err
	})
}

func (r rows) lock(ctx context.Context, name string) (func() error, uint64, error) {
	tag, err := r.pool.Exec(ctx, "UPDATE floor SET n = 1 WHERE name = $1 AND n = 0", name)
	if err == nil && tag.RowsAffected() == 0 {
		tag, err = r.pool.Exec(ctx, "INSERT INTO floor VALUES ($1, 1) ON CONFLICT DO NOTHING", name)
		if err == nil && tag.RowsAffected() == 0 {
			err = errNotAlone
		}
	}
	return func() error {
		tag, err := r.pool.Exec(context.Background(), r.free, name)
		if err == nil && tag.RowsAffected() != 1 {
			err = errNotAlone
		}
		return err
	}, 0, err
}

func (r rows) close() { r.pool.Close() }

// bell passes a message around among all seats, as ring does, with NOTIFY and LISTEN.
type bell struct {
	seat
	hear, speak *pgx.Conn
	first       sync.Once
}

func openBell(ctx context.Context, w *world, s seat) (locker, error) {
	b := &bell{seat: s}
	for _, c := range []**pgx.Conn{&b.hear, &b.speak} {
		var err error
		if *c, err = pgx.Connect(ctx, w.Postgres); err != nil {
			return nil, err
		}
	}
	_, err := b.hear.Exec(ctx, "LISTEN "+b.channel(s.Index))
	return b, err
}

func (b *bell) channel(seat int) string { return fmt.Sprint("bell_", seat%b.Total) }

func (b *bell) lock(ctx context.Context, _ string) (func() error, uint64, error) {
	begin := false
	b.first.Do(func() { begin = b.Index == 0 })
	if !begin {
		if _, err := b.hear.WaitForNotification(ctx); err != nil {
			return nil, 0, err
		}
	}
	return func() error {
		_, err := b.speak.Exec(context.Background(), "SELECT pg_notify($1, 'x')", b.channel(b.Index+1))
		return err
	}, 0, nil
}

func (b *bell) close() {
	ctx, cancel := background()
	defer cancel()
	_ = b.hear.Close(ctx)
	_ = b.speak.Close(ctx)
}
