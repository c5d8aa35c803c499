// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	cirello "cirello.io/pglock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq" // the driver that cirello.io/pglock needs
)

func init() {
	const often = 5 * time.Millisecond
	enlist(
		&contender{name: "advisory lock in a transaction", open: openAdvisory(0)},
		&contender{name: "advisory lock, 5 ms", open: openAdvisory(often)},
		// Left alone, it would ask again only after the length of a lease, 20 s.
		&contender{name: "cirello.io/pglock", open: openCirello(often)},
	)
}

// perhaps calls try until it returns true or an error, with the pause every between calls.
func perhaps(ctx context.Context, every time.Duration, try func() (bool, error)) error {
	for {
		ok, err := try()
		if ok || err != nil {
			return err
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// advisory uses a connection for each lock that it holds or waits for.
type advisory struct {
	pool  *pgxpool.Pool
	every time.Duration
}

func openAdvisory(every time.Duration) func(context.Context, *world, seat) (locker, error) {
	return func(ctx context.Context, w *world, s seat) (locker, error) {
		pool, err := pgPool(ctx, w, 64/int32(min(s.Total, 16)))
		return advisory{pool, every}, err
	}
}

func (a advisory) lock(ctx context.Context, name string) (func() error, uint64, error) {
	if a.every > 0 {
		return a.retried(ctx, name)
	}
	tx, err := a.pool.Begin(ctx)
	if err != nil {
		return nil, 0, err
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name); err != nil {
		return nil, 0, errors.Join(err, tx.Rollback(context.Background()))
	}
	return func() error { return tx.Commit(context.Background()) }, 0, nil
}

// retried acquires a session-level lock. A waiter asks for it again and again, and keeps no
// connection in between.
func (a advisory) retried(ctx context.Context, name string) (func() error, uint64, error) {
	var mine *pgxpool.Conn
	err := perhaps(ctx, a.every, func() (got bool, err error) {
		c, err := a.pool.Acquire(ctx)
		if err != nil {
			return false, err
		}
		if err = c.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name).Scan(&got); got && err == nil {
			mine = c
			return true, nil
		}
		c.Release()
		return false, err
	})
	return func() error {
		defer mine.Release()
		_, err := mine.Exec(context.Background(), "SELECT pg_advisory_unlock(hashtextextended($1, 0))", name)
		return err
	}, 0, err
}

func (a advisory) close() { a.pool.Close() }

type cirelloLocker struct {
	db    *sql.DB
	c     *cirello.Client
	every time.Duration
}

func openCirello(every time.Duration) func(context.Context, *world, seat) (locker, error) {
	return func(ctx context.Context, w *world, s seat) (locker, error) {
		db, err := sql.Open("postgres", w.Postgres)
		if err != nil {
			return nil, err
		}
		// Without idle connections, each statement would open a new connection.
		n := 64 / min(s.Total, 16)
		db.SetMaxOpenConns(n)
		db.SetMaxIdleConns(n)
		l := &cirelloLocker{db: db, every: every}
		if l.c, err = cirello.New(db, cirello.WithLeaseDuration(leaseTTL), cirello.WithHeartbeatFrequency(leaseTTL/3)); err != nil {
			return nil, err
		}
		pool, err := pgPool(ctx, w, 1)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		return l, once(ctx, pool, func(pgx.Tx) error { return l.c.TryCreateTable() })
	}
}

func (l *cirelloLocker) lock(ctx context.Context, name string) (func() error, uint64, error) {
	var lock *cirello.Lock
	err := perhaps(ctx, l.every, func() (bool, error) {
		var err error
		lock, err = l.c.AcquireContext(ctx, name, cirello.FailIfLocked())
		if errors.Is(err, cirello.ErrNotAcquired) {
			return false, nil
		}
		return err == nil, err
	})
	return func() error { return l.c.Release(lock) }, 0, err
}

func (l *cirelloLocker) close() { _ = l.db.Close() }
