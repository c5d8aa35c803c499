// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"database/sql"

	"github.com/pawl-go/pawl"
)

// GooseLocker is a lock.Locker and a lock.SessionLocker of goose v3, for goose.WithLocker or
// goose.WithSessionLocker. Processes that start together migrate a database one after the other, and only the
// first finds work to do. GooseLocker works for every database, because the lock is not in the database. Prefer
// WithLocker, which does not occupy a connection.
//
// Goose waits for the lock until its context ends. If the lease is lost, goose completes the migration and then
// returns the error of Unlock, pawl.ErrLost. To stop it earlier, leave the locker out and run goose under the
// lease:
//
//	locks.Do(ctx, "migrate/billing", func(ctx context.Context, lease *pawl.Lease) error {
//		_, err := provider.Up(ctx)
//		return err
//	})
type GooseLocker struct {
	Locks   *pawl.Client  // acquires the leases; must be set
	Name    string        // the name of the lock; use a different one for each database
	Options []pawl.Option // for Acquire

	turns turns
}

// Lock waits for the lock. It returns the errors of Client.Acquire.
func (g *GooseLocker) Lock(ctx context.Context, _ *sql.DB) error {
	return g.turns.lock(ctx, g.Locks.Acquire, g.Name, g.Options)
}

// Unlock releases the lock. It returns the errors of Lease.Release: ErrLost if a part of the migration ran without
// the lock, and ErrReleased if the lock is not locked.
func (g *GooseLocker) Unlock(ctx context.Context, _ *sql.DB) error {
	return g.turns.unlock(ctx, g.Name)
}

// SessionLock calls Lock. The lock does not depend on the connection.
func (g *GooseLocker) SessionLock(ctx context.Context, _ *sql.Conn) error { return g.Lock(ctx, nil) }

// SessionUnlock calls Unlock.
func (g *GooseLocker) SessionUnlock(ctx context.Context, _ *sql.Conn) error {
	return g.Unlock(ctx, nil)
}
