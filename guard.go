// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
)

// Guard binds a transaction on the database of the store to the lease: what tx writes is
// committed only if the lease is held, and before anybody else is granted the name. So a
// holder that was paused or cut off cannot write late, and the data need no fencing token.
// It holds also if the lease's time is over before the commit: nobody else is granted the
// name until tx has ended.
//
// Call it once in each transaction, before the writes or after them, and before any savepoint.
// With pglock, tx is a pgx.Tx or a *sql.Tx; pglock.Guard and pglock.GuardSQL let the compiler check
// that. A nested transaction of pgx, which is a savepoint, is refused. After an error tx cannot be
// committed, whatever the error was: roll it back. End tx before Release; if not, the name becomes
// free when tx ends.
//
// Within Client.Do, use the context that Do gives its function, also for the statements of
// tx: when the lease ends they fail, instead of keeping the name. With another context tx may
// go on and commit, as safely. Do returns ErrLost then all the same: whether tx was committed
// is what its Commit has returned.
//
// The error is ErrLost or ErrReleased if the lease has ended, and one that wraps
// errors.ErrUnsupported if the store is no database, or not that of tx.
func (l *Lease) Guard(ctx context.Context, tx any) error {
	if l.zero() {
		return errZero
	}
	ctx = present(ctx)
	if err := l.guard(ctx, tx); err != nil {
		return l.grant.client.opError(ctx, "guard", l.grant.name, err)
	}
	return nil
}

func (l *Lease) guard(ctx context.Context, tx any) error {
	l.check()
	err := l.ended()
	switch guards := l.grant.remote.Guards(); {
	case !guards && err == nil:
		return fmt.Errorf("this store cannot guard a transaction; pglock can: %w", errors.ErrUnsupported)
	case !guards:
		return err
	case err == nil && !l.keep(): // else the lease is not handed over without the store from now on
		if err = l.ended(); err == nil {
			err = ErrReleased
		}
	}
	return l.grant.remote.Guard(ctx, tx, err)
}
