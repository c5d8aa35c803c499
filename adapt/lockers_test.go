// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
)

// locker locks the name "a" with an adapter whose Unlock gets no lease.
type locker struct {
	lock, unlock func(context.Context) error
	forever      bool // lock has no context
}

// eachLocker runs f with each such adapter.
func eachLocker(t *testing.T, f func(t *testing.T, w world, l locker)) {
	for name, of := range map[string]func(*pawl.Client) locker{
		"Mutex": func(c *pawl.Client) locker {
			m := &adapt.Mutex{Locks: c, Name: "a"}
			return locker{func(context.Context) error { return panics(m.Lock) }, func(context.Context) error { return panics(m.Unlock) }, true}
		},
		"GooseLocker": func(c *pawl.Client) locker {
			g := &adapt.GooseLocker{Locks: c, Name: "a"}
			return locker{func(ctx context.Context) error { return g.Lock(ctx, nil) }, func(ctx context.Context) error { return g.Unlock(ctx, nil) }, false}
		},
		"GooseLocker of a session": func(c *pawl.Client) locker {
			g := &adapt.GooseLocker{Locks: c, Name: "a"}
			return locker{func(ctx context.Context) error { return g.SessionLock(ctx, nil) }, func(ctx context.Context) error { return g.SessionUnlock(ctx, nil) }, false}
		},
		"CertMagicLocker": func(c *pawl.Client) locker {
			m := &adapt.CertMagicLocker{Locks: c}
			return locker{func(ctx context.Context) error { return m.Lock(ctx, "a") }, func(ctx context.Context) error { return m.Unlock(ctx, "a") }, false}
		},
	} {
		t.Run(name, func(t *testing.T) { inWorld(t, func(t *testing.T, w world) { f(t, w, of(w.locks)) }) })
	}
}

// panics returns the error that f panics with, or nil.
func panics(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = v.(error)
		}
	}()
	f()
	return nil
}

func TestLockers(t *testing.T) {
	eachLocker(t, func(t *testing.T, w world, l locker) {
		wantIs(t, l.unlock(background), pawl.ErrReleased)
		theirs := w.take(t, "a")
		wantIs(t, l.unlock(background), pawl.ErrReleased)
		wantIs(t, theirs.Err(), nil)
		short, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		if !l.forever {
			wantIs(t, l.lock(short), context.DeadlineExceeded) // held by another
		}
		time.AfterFunc(time.Minute, func() { give(t, theirs) })
		wantIs(t, l.lock(background), nil) // waits
		w.wantHeld(t, "a")
		if !l.forever {
			wantIs(t, l.lock(short), context.DeadlineExceeded) // held by us
		}
		wantIs(t, l.unlock(background), nil)
		wantIs(t, l.unlock(background), pawl.ErrReleased)
		w.wantFree(t, "a")

		w.link.Cut()
		wantIs(t, l.lock(background), pawl.ErrUnavailable)
		wantIs(t, l.unlock(background), pawl.ErrReleased)
		w.link.Heal()
		wantIs(t, l.lock(background), nil) // the turn was given back
		cancel()
		wantIs(t, l.unlock(short), nil) // with a context that has ended
		w.wantFree(t, "a")

		theirs = w.take(t, "a")
		waiting := make(chan error)
		go func() { waiting <- l.lock(background) }()
		synctest.Wait()
		wantIs(t, w.locks.Close(), nil)
		wantIs(t, <-waiting, pawl.ErrClosed)
		wantIs(t, l.lock(background), pawl.ErrClosed)
		give(t, theirs)
	})
}

// Two goroutines of one process use the lock. The first loses the lease, and another process takes the lock. The
// unlock of the first must say so, and end neither that one's lease nor the second's, which comes when its turn is.
func TestLockersAfterALoss(t *testing.T) {
	eachLocker(t, func(t *testing.T, w world, l locker) {
		wantIs(t, l.lock(background), nil)
		second := make(chan error, 1)
		go func() { second <- l.lock(background) }()
		w.breakLease(t, "a")
		select {
		case <-second:
			t.Fatal("the second is in while the first has not unlocked")
		default:
		}
		theirs := w.take(t, "a")
		wantIs(t, l.unlock(background), pawl.ErrLost)
		wantIs(t, theirs.Err(), nil)
		give(t, theirs)
		wantIs(t, <-second, nil)
		w.wantHeld(t, "a")
		wantIs(t, l.unlock(background), nil)
		w.wantFree(t, "a")
	})
}
