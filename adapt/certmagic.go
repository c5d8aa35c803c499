// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
)

// CertMagicLocker is a Locker of certmagic, and its optional TryLocker and LockLeaseRenewer. Servers with
// one certificate storage then get and renew each certificate once. Embed the storage's own locks one
// level deeper, so that this one is used:
//
//	type files struct{ certmagic.Storage }
//
//	type storage struct {
//		files
//		*adapt.CertMagicLocker
//	}
//
// Certmagic cannot hear of a loss while it works; its documentation says that locks may fail. It hears
// of a loss between two attempts, from RenewLockLease.
type CertMagicLocker struct {
	Locks   *pawl.Client  // acquires the leases; must be set
	Prefix  string        // put before certmagic's names; the same for all servers with one storage
	Options []pawl.Option // of Acquire and TryAcquire

	turns turns
}

// Lock waits for the lock on name. It returns the errors of Client.Acquire. Callers of one
// CertMagicLocker take turns, also after a loss.
func (c *CertMagicLocker) Lock(ctx context.Context, name string) error {
	return c.turns.lock(ctx, c.Locks.Acquire, c.Prefix+name, c.Options)
}

// TryLock tries once. It returns false without an error if the lock is held. Otherwise it returns
// the errors of Client.TryAcquire.
func (c *CertMagicLocker) TryLock(ctx context.Context, name string) (bool, error) {
	err := c.turns.tryLock(ctx, c.Locks.TryAcquire, c.Prefix+name, c.Options)
	if errors.Is(err, pawl.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock on name, and never the lease of another holder. The error is ErrLost if the
// lease was lost before, which certmagic logs, and ErrReleased if this CertMagicLocker does not hold the
// lock.
func (c *CertMagicLocker) Unlock(ctx context.Context, name string) error {
	return c.turns.unlock(ctx, c.Prefix+name)
}

// RenewLockLease returns nil if the lock on name is held. It ignores the TTL that certmagic wants:
// the client renews the lease while the work goes on, and a server that has crashed should not block the
// others for hours.
//
// If the lease was lost, RenewLockLease tries to acquire another one, and returns nil if it does. Certmagic calls it
// before each attempt, and then checks again what there is to do, so the work of others in between does
// no harm. Otherwise the error is ErrLost and the error of TryAcquire.
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
	_ = lease.Release(ctx) // returns the loss; the store may still have the lease
	next, err := c.Locks.TryAcquire(ctx, name, c.Options...)
	if err != nil {
		return fmt.Errorf("%w; %w", lost, err)
	}
	if !c.turns.exchange(name, lease, next) { // unlocked in the meantime
		_ = next.Release(ctx) // if that fails, the client tries again
		return lost
	}
	return nil
}
