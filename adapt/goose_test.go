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

func TestGooseLocker(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		g := &adapt.GooseLocker{Locks: w.locks, Name: "migrate"}
		for _, use := range []struct{ lock, unlock func(context.Context) error }{
			{func(ctx context.Context) error { return g.Lock(ctx, nil) }, func(ctx context.Context) error { return g.Unlock(ctx, nil) }},
			{func(ctx context.Context) error { return g.SessionLock(ctx, nil) }, func(ctx context.Context) error { return g.SessionUnlock(ctx, nil) }},
		} {
			wantIs(t, use.unlock(background), pawl.ErrReleased)

			theirs := w.take(t, "migrate")
			ctx, cancel := context.WithTimeout(background, time.Minute)
			wantIs(t, use.lock(ctx), context.DeadlineExceeded) // held by another
			cancel()
			give(t, theirs)

			w.link.Cut()
			wantIs(t, use.lock(background), pawl.ErrUnavailable)
			w.link.Heal()

			if err := use.lock(background); err != nil {
				t.Fatal(err)
			}
			w.wantHeld(t, "migrate")
			ctx, cancel = context.WithTimeout(background, time.Minute)
			wantIs(t, use.lock(ctx), context.DeadlineExceeded) // by another provider of this process
			if err := use.unlock(ctx); err != nil {
				t.Errorf("unlock with a context that has ended: %v", err)
			}
			cancel()
			wantIs(t, use.unlock(background), pawl.ErrReleased)
			w.wantFree(t, "migrate")

			if err := use.lock(background); err != nil {
				t.Fatal(err)
			}
			w.breakLease(t, "migrate")
			theirs = w.take(t, "migrate")
			wantIs(t, use.unlock(background), pawl.ErrLost)
			if err := theirs.Err(); err != nil {
				t.Errorf("the lease of another: %v", err)
			}
			give(t, theirs)
		}
		synctest.Wait()
	})
}
