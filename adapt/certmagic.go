// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
)

// CertMagicLocker is a Locker of certmagic, with its optional TryLocker and
// LockLeaseRenewer: several servers with one certificate storage get and renew each
// certificate once. Put it before the storage's own locks by embedding those one
// level deeper:
//
//	type files struct{ certmagic.Storage }
//
//	type storage struct {
//		files
//		*adapt.CertMagicLocker
//	}
//
// Certmagic cannot be told of a loss while it works; its documentation asks users
// of locks to bear that. Between two attempts at a certificate, RenewLockLease
// tells it.
type CertMagicLocker struct {
	Locks   *pawl.Client  // acquires the leases; must be set
	Prefix  string        // put before certmagic's names; those who share a storage use the same
	Options []pawl.Option // of Acquire and TryAcquire

	turns turns
}

// Lock waits for the lock on name. It returns the errors of Client.Acquire. Callers
// of one CertMagicLocker come one after the other, also after a loss.
func (c *CertMagicLocker) Lock(ctx context.Context, name string) error {
	return c.turns.lock(ctx, c.Locks.Acquire, c.Prefix+name, c.Options)
}

// TryLock asks once, and reports false without an error if somebody else has the
// lock. Its errors are those of Client.TryAcquire.
func (c *CertMagicLocker) TryLock(ctx context.Context, name string) (bool, error) {
	err := c.turns.tryLock(ctx, c.Locks.TryAcquire, c.Prefix+name, c.Options)
	if errors.Is(err, pawl.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// Unlock gives the lock on name back. It never ends the lease of anybody else. The
// error is ErrLost if the lease was lost before, which certmagic logs, and
// ErrReleased if this CertMagicLocker does not hold it.
func (c *CertMagicLocker) Unlock(ctx context.Context, name string) error {
	return c.turns.unlock(ctx, c.Prefix+name)
}

// RenewLockLease returns nil if the lock on name is held. It asks for no longer
// TTL: the client renews the lease for as long as the work takes, and a server that
// has crashed should not keep the others waiting for hours.
//
// If the lease was lost, it tries to get another and returns nil if it could.
// Certmagic calls it before each attempt, and looks then whether there is still
// something to do, so what others have done in between does no harm. Otherwise
// the error is ErrLost, and that of TryAcquire.
func (c *CertMagicLocker) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	name = c.Prefix + name
	lease := c.turns.held(name)
	if lease == nil {
		return &pawl.Error{Op: "extend", Name: name, Err: errNotHeld}
	}
	lost := lease.Err()
	if lost == nil {
		return nil
	}
	_ = lease.Release(ctx) // says that it is lost; the store may still have it
	next, err := c.Locks.TryAcquire(ctx, name, c.Options...)
	if err != nil {
		return fmt.Errorf("%w; %w", lost, err)
	}
	if !c.turns.exchange(name, lease, next) { // unlocked in the meantime
		_ = next.Release(ctx) // if the store cannot be told, the client goes on telling it
		return lost
	}
	return nil
}
