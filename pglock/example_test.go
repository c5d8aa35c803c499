// SPDX-License-Identifier: Apache-2.0

package pglock_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/pglock"
)

// The lock and the data are in one database: what the holder writes is committed only if it has
// the lock.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	locks, err := pglock.New(ctx, pool, nil) // pglock.Open takes a URL
	if err != nil {
		log.Fatal(err) // which says what to do
	}
	defer locks.Close()
	err = locks.Do(ctx, "invoice/42", func(ctx context.Context, lease *pawl.Lease) error {
		tx, err := pool.Begin(ctx) // ctx is that of Do's function: it ends with the lease
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if err := pglock.Guard(ctx, lease, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "update invoices set paid = true where id = 42"); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	if err != nil {
		log.Fatal(err)
	}
}
