// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func init() {
	enlist(
		&contender{name: "two updates of a row, the second async", kind: floor, open: openRows},
		&contender{name: "NOTIFY to delivery", kind: floor, open: openNotify},
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
type rows struct{ pool *pgxpool.Pool }

func openRows(ctx context.Context, w *world, _ seat) (locker, error) {
	pool, err := pgPool(ctx, w, 4)
	if err != nil {
		return nil, err
	}
	return rows{pool}, once(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS floor (name text COLLATE "C" PRIMARY KEY, n int NOT NULL) WITH (fillfactor = 50)`)
		return err
	})
}

// once calls create under a lock, so that participants call it one after the other.
func once(ctx context.Context, pool *pgxpool.Pool, create func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('bench', 0))"); err != nil {
			return err
		}
		return create(tx)
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
		tag, err := r.pool.Exec(context.Background(), "UPDATE floor SET n = 0 WHERE name = $1 AND n = 1 AND set_config('synchronous_commit', 'off', true) = 'off'", name)
		if err == nil && tag.RowsAffected() != 1 {
			err = errNotAlone
		}
		return err
	}, 0, err
}

func (r rows) close() { r.pool.Close() }

func openNotify(ctx context.Context, w *world, s seat) (locker, error) {
	pool, err := pgPool(ctx, w, 2)
	if err != nil {
		return nil, err
	}
	hear, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	_, err = hear.Exec(ctx, "LISTEN "+s.channel(s.Index))
	return &ring{
		seat: s,
		receive: func(ctx context.Context) error {
			_, err := hear.Conn().WaitForNotification(ctx)
			return err
		},
		send: func(channel string) error {
			_, err := pool.Exec(context.Background(), "SELECT pg_notify($1, 'x')", channel)
			return err
		},
		end: func() { hear.Release(); pool.Close() },
	}, err
}
