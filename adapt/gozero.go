// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// GoZeroLock has the methods of go-zero's redis.RedisLock. Use it in place of redis.NewRedisLock(store, key).
//
//	lock := &adapt.GoZeroLock{Locks: locks, Name: "stock/" + id}
//	lock.SetExpire(30)
//	if ok, err := lock.AcquireCtx(ctx); !ok || err != nil { … }
//	defer lock.Release()
//
// Like a RedisLock, a GoZeroLock is one holder, however many goroutines use it: a second AcquireCtx returns true.
// Unlike a RedisLock, it renews its lease, and Release reports whether the lock was lost before. It cannot report
// a loss while the work goes on: check Lease. Do not copy a GoZeroLock after the first use.
type GoZeroLock struct {
	Locks   *pawl.Client  // acquires the leases; must be set
	Name    string        // the name of the lock
	Options []pawl.Option // for TryAcquire

	mu     sync.Mutex
	expire time.Duration // 0 means that only Release ends the lock
	lease  *pawl.Lease   // the lease of the last Acquire; nil after Release
}

// SetExpire makes the next acquisition end after the given number of seconds, even if the holder still works.
// Without SetExpire, or with 0, the lock lasts until Release or the end of the process. A RedisLock without
// SetExpire ends after half a second.
func (l *GoZeroLock) SetExpire(seconds int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire = time.Duration(seconds) * time.Second
}

// Acquire calls AcquireCtx without a context.
func (l *GoZeroLock) Acquire() (bool, error) { return l.AcquireCtx(context.Background()) }

// AcquireCtx tries once to get the lock. It returns false without an error if another holder has it. Otherwise it
// returns the errors of Client.TryAcquire.
func (l *GoZeroLock) AcquireCtx(ctx context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease != nil {
		if l.lease.Err() == nil {
			return true, nil
		}
		_ = l.lease.Release(ctx) // returns the loss
		l.lease = nil
	}
	lease, err := l.Locks.TryAcquire(ctx, l.Name, append(slices.Clip(l.Options), pawl.MaxHold(l.expire))...)
	if errors.Is(err, pawl.ErrHeld) {
		return false, nil
	}
	l.lease = lease
	return err == nil, err
}

// Release calls ReleaseCtx without a context.
func (l *GoZeroLock) Release() (bool, error) { return l.ReleaseCtx(context.Background()) }

// ReleaseCtx releases the lock. It returns false without an error if the lock was no longer held; another holder
// may have had it. Otherwise it returns the errors of Lease.Release.
func (l *GoZeroLock) ReleaseCtx(ctx context.Context) (bool, error) {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		return false, nil
	}
	err := lease.Release(ctx)
	if errors.Is(err, pawl.ErrLost) {
		return false, nil
	}
	return err == nil, err
}

// Lease returns the lease, which has the token and the context, or nil.
func (l *GoZeroLock) Lease() *pawl.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}
