// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

func TestReentrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		outer := acquire(t, c, "a", pawl.Reentrant())
		ctx := under(t, outer)
		next := want(t, other)
		inner, err := c.Acquire(ctx, "a", pawl.Reentrant())
		if err != nil || inner != outer || outer.Holds() != 2 {
			t.Fatalf("Acquire = %v, %v with %d holds, want the same lease with two", inner, err, outer.Holds())
		}
		if l, err := c.TryAcquire(ctx, "a", pawl.Reentrant(), pawl.Shared()); err != nil || l != outer {
			t.Fatalf("TryAcquire = %v, %v, want the same lease: an exclusive one is as good as a shared one", l, err)
		}
		wantDo := c.Do(ctx, "a", func(ctx context.Context, l *pawl.Lease) error {
			if l.Holds() != 4 {
				t.Errorf("%d holds, want 4", l.Holds())
			}
			return nil
		}, pawl.Reentrant())
		if wantDo != nil {
			t.Error(wantDo)
		}
		// In any order: what counts is how often.
		release(t, outer)
		release(t, inner)
		next.waits(t)
		if outer.Err() != nil || ctx.Err() != nil || outer.Holds() != 1 {
			t.Errorf("before the last release: %v, %v, %d holds", outer.Err(), ctx.Err(), outer.Holds())
		}
		release(t, outer)
		release(t, outer) // once too often: nobody holds it
		wantIs(t, inner.Err(), pawl.ErrReleased)
		if outer.Holds() != 0 {
			t.Errorf("%d holds after the last release", outer.Holds())
		}
		release(t, next.lease(t))

		// The context of a lease that has ended identifies nobody.
		if l, err := c.TryAcquire(ctx, "a", pawl.Reentrant()); !errors.Is(err, context.Canceled) {
			t.Errorf("TryAcquire under the context of an ended lease = %v, %v", l, err)
		}
		l, err := c.Acquire(context.WithoutCancel(ctx), "a", pawl.Reentrant())
		if err != nil || l == outer {
			t.Errorf("Acquire with the values of an ended lease's context = %v, %v, want a new lease", l, err)
		}
	})
}

func TestReentrantRefuses(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	under := func(l *pawl.Lease, opts ...pawl.Option) error {
		ctx := under(t, l)
		_, err := c.Acquire(ctx, l.Name(), opts...)
		return err
	}
	reader := acquire(t, c, "a", pawl.Shared())
	slot := acquire(t, c, "b", pawl.Slots(2))
	writer := acquire(t, c, "c")
	for what, err := range map[string]error{
		"upgrade":          under(reader, pawl.Reentrant()),
		"no option":        under(writer),
		"reader, not said": under(reader, pawl.Shared()),
		"slot to writer":   under(slot, pawl.Reentrant()),
		"other slots":      under(slot, pawl.Reentrant(), pawl.Slots(3)),
		"writer to slot":   under(writer, pawl.Reentrant(), pawl.Slots(3)),
	} {
		if !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("%s: error is %v, want ErrHeld", what, err)
		}
	}
	if err := under(slot, pawl.Reentrant(), pawl.Slots(2)); err != nil || slot.Holds() != 2 {
		t.Errorf("the same slot: %v, %d holds", err, slot.Holds())
	}
	if err := under(writer, pawl.Reentrant()); err != nil {
		t.Error(err)
	}
	if _, err := writer.Downgrade(context.Background()); err == nil || writer.Err() != nil {
		t.Errorf("Downgrade of a lease that another hold counts on = %v, which is %v", err, writer.Err())
	}
	release(t, writer)
	if _, err := writer.Downgrade(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestLostLeaseIsLostForEveryHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, new(memlock.Store).Participant(), nil)
		err := c.Do(context.Background(), "a", func(ctx context.Context, l *pawl.Lease) error {
			return c.Do(ctx, "a", func(ctx context.Context, _ *pawl.Lease) error {
				<-ctx.Done()
				wantIs(t, context.Cause(ctx), pawl.ErrLost)
				return nil
			}, pawl.Reentrant())
		}, pawl.MaxHold(time.Second))
		wantIs(t, err, pawl.ErrLost)
		release(t, acquire(t, c, "a"))
	})
}

// Goroutines that share the context are one holder.
func TestReentrantInParallel(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	l := acquire(t, c, "a")
	ctx := under(t, l)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				inner, err := c.Acquire(ctx, "a", pawl.Reentrant())
				if err != nil || inner != l {
					t.Errorf("Acquire = %v, %v, want the same lease", inner, err)
					return
				}
				if err := inner.Release(ctx); err != nil {
					t.Errorf("Release = %v", err)
				}
			}
		})
	}
	all.Wait()
	if l.Holds() != 1 || l.Err() != nil {
		t.Errorf("%d holds, %v, want one and nil", l.Holds(), l.Err())
	}
	release(t, l)
}

// A context under two leases looks at the clock for both.
func TestContextLooksAtEveryLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		cutRenewals(d)
		c := open(t, d, nil)
		outer := acquire(t, c, "a", pawl.TTL(time.Second))
		inner := acquire(t, c, "b", pawl.TTL(time.Hour))
		ctx := under(t, outer)
		ctx, cancel := inner.Context(ctx)
		defer cancel()
		stopTimers(c)
		time.Sleep(2 * time.Second)
		if ctx.Err() == nil {
			t.Error("Err = nil although the outer lease has ended")
		}
		wantIs(t, context.Cause(ctx), pawl.ErrLost)
	})
}

// A caller without the context is another holder, and waits; another client with it would
// wait for itself.
func TestReentrantIsTheContextsBusiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		l := acquire(t, c, "a", pawl.Reentrant())
		holding := under(t, l)
		for what, call := range map[string]struct {
			c    *pawl.Client
			ctx  context.Context
			want error
		}{
			"another client":  {other, holding, pawl.ErrDeadlock},
			"another context": {c, context.Background(), context.DeadlineExceeded},
		} {
			ctx, cancel := context.WithTimeout(call.ctx, time.Minute)
			_, err := call.c.Acquire(ctx, "a", pawl.Reentrant())
			cancel()
			if !errors.Is(err, call.want) {
				t.Errorf("%s: error is %v, want %v", what, err, call.want)
			}
		}
		if l.Holds() != 1 {
			t.Errorf("%d holds", l.Holds())
		}
		release(t, l)
	})
}

// TestUpgradeSaysDowngrade: who would upgrade a shared lease learns that Downgrade is the way.
func TestUpgradeSaysDowngrade(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	err := c.Do(t.Context(), "a", func(ctx context.Context, _ *pawl.Lease) error {
		_, err := c.Acquire(ctx, "a", pawl.Reentrant())
		return err
	}, pawl.Shared())
	if !errors.Is(err, pawl.ErrHeld) || !strings.Contains(err.Error(), "Downgrade") {
		t.Errorf("Acquire under a shared lease = %v; want ErrHeld, and what to do instead", err)
	}
}
