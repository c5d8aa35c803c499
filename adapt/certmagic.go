// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
)

// CertMagicLocker is a Locker of certmagic. It also has the optional interfaces TryLocker and LockLeaseRenewer.
// With it, servers with one certificate storage get and renew each certificate once. The storage has locks of its
// own: embed it one level deeper, so that certmagic uses the CertMagicLocker:
//
//	type files struct{ certmagic.Storage }
//
//	type storage struct {
//		files
//		*adapt.CertMagicLocker
//	}
//
// Certmagic cannot learn of a loss while it works; its documentation says that locks may fail. Between two
// attempts it learns of a loss from RenewLockLease.
type CertMagicLocker struct {
	Locks   *pawl.Client  // acquires the leases; must be set
	Prefix  string        // begins the lock names; the same for all servers with one storage
	Options []pawl.Option // for Acquire and TryAcquire

	turns turns
}

// Lock waits for the lock on name. It returns the errors of Client.Acquire. The callers of one CertMagicLocker
// take turns, even after a loss.
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

// Unlock releases the lock on name, and never the lease of another holder. It returns ErrLost if the lease was
// lost before, which certmagic logs. It returns ErrReleased if this CertMagicLocker does not hold the lock.
func (c *CertMagicLocker) Unlock(ctx context.Context, name string) error {
	return c.turns.unlock(ctx, c.Prefix+name)
}

// RenewLockLease returns nil if the lock on name is held. It ignores the TTL that certmagic asks for: the client
// renews the lease while the work goes on, and a server that has crashed should not block the others for hours.
//
// If the lease was lost, RenewLockLease tries to acquire another one, and returns nil if it succeeds. Certmagic
// calls it before each attempt and then checks again what it has to do, so it does no harm if another server has
// worked in between. If RenewLockLease cannot acquire a lease, it returns ErrLost and the error of TryAcquire.
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
	_ = lease.Release(ctx) // ends the lease in the store, if it is there; returns the loss
	next, err := c.Locks.TryAcquire(ctx, name, c.Options...)
	if err != nil {
		return fmt.Errorf("%w; %w", lost, err)
	}
	if !c.turns.exchange(name, lease, next) { // Unlock was called in the meantime
		_ = next.Release(ctx) // if that fails, the client tries again
		return lost
	}
	return nil
}
