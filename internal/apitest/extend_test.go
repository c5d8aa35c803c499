// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// Redis also executes buffered commands that their client has given up.
func TestRenewalThatArrivesLateDoesNotShorten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		var late atomic.Pointer[func() (driver.Renewal, error)] // of the last renewal
		set(d, &d.renew, func(ctx context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
			late.Store(&ask)
			<-ctx.Done()
			return driver.Renewal{}, ctx.Err()
		})
		l := acquire(t, open(t, d, &pawl.Options{TTL: 3 * time.Second}), "a")
		time.Sleep(1600 * time.Millisecond) // the first renewal has been given up
		set(d, &d.renew, nil)
		if err := l.Extend(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		cutRenewals(d)
		if _, err := (*late.Load())(); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, open(t, s.Participant(), nil), "a")
		if l.Err() == nil && next.Err() == nil {
			t.Errorf("two trusted holders, the first with %v left", time.Until(l.Deadline()))
		}
	})
}

func hangRenewals(d *tapped) {
	set(d, &d.renew, func(ctx context.Context, _ func() (driver.Renewal, error)) (driver.Renewal, error) {
		<-ctx.Done()
		return driver.Renewal{}, ctx.Err()
	})
}

func hangReleases(d *tapped) {
	set(d, &d.release, func(ctx context.Context, _ func() (bool, error)) (bool, error) {
		<-ctx.Done()
		return false, ctx.Err()
	})
}

func TestExtendThatHangsLeavesTimeForRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		hangRenewals(d)
		l := acquire(t, open(t, d, &pawl.Options{TTL: 6 * time.Second}), "a")
		began := time.Now()
		err := l.Extend(context.Background(), time.Minute)
		wantIs(t, err, context.DeadlineExceeded)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Extend returned after %v, want a third of the TTL", took)
		}
		set(d, &d.renew, nil)
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	})
}

// While a renewal hangs, Extend ends with its context, and with the lease.
func TestExtendEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		hangRenewals(d)
		l := acquire(t, open(t, d, &pawl.Options{TTL: 30 * time.Second}), "a")
		time.Sleep(11 * time.Second) // a renewal is under way
		ctx := within(t, 10*time.Millisecond)
		began := time.Now()
		wantIs(t, l.Extend(ctx, 30*time.Second), context.DeadlineExceeded)
		if took := time.Since(began); took != 10*time.Millisecond {
			t.Errorf("Extend returned after %v", took)
		}
		errs := make(chan error)
		go func() { errs <- l.Extend(context.Background(), 30*time.Second) }()
		synctest.Wait()
		release(t, l)
		wantIs(t, <-errs, pawl.ErrReleased)
	})
}

// Answers that always take long make renewals overlap. Extend gets its turn all the same, and what
// it waits for does not cost the lease; a call that gives up leaves the renewals as they were.
func TestExtendGetsItsTurnBetweenSlowRenewals(t *testing.T) {
	const ttl = 30 * time.Second
	for _, took := range []time.Duration{ttl / 5, ttl / 4, ttl * 3 / 10, ttl/3 - time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := tap(new(memlock.Store))
			answers(d, func(int64) time.Duration { return took })
			l := acquire(t, open(t, d, &pawl.Options{TTL: ttl}), "a")
			time.Sleep(ttl/3 + ttl/6 + time.Second) // renewals overlap
			short := within(t, time.Second)
			wantIs(t, l.Extend(short, time.Minute), context.DeadlineExceeded)
			time.Sleep(3 * ttl)
			began := time.Now()
			ctx := within(t, 10*ttl)
			if err := l.Extend(ctx, time.Minute); err != nil || time.Since(began) > ttl {
				t.Errorf("answers take %v: Extend = %v after %v; want nil within a TTL", took, err, time.Since(began))
			}
			time.Sleep(10 * ttl)
			if err := l.Err(); err != nil {
				t.Errorf("answers take %v: %v", took, err)
			}
			release(t, l)
		})
	}
}

// While Extend waits no second renewal begins. When it gives up, the one that is due does.
func TestRenewalGoesOnWhenExtendGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		hangRenewals(d)
		l := acquire(t, open(t, d, &pawl.Options{TTL: 30 * time.Second}), "a")
		time.Sleep(10 * time.Second) // a renewal is under way
		ctx := within(t, 6*time.Second)
		wantIs(t, l.Extend(ctx, time.Minute), context.DeadlineExceeded)
		time.Sleep(time.Second)
		if n := d.renewals.Load(); n != 2 {
			t.Errorf("%d renewals have begun; want 2", n)
		}
		release(t, l)
	})
}

func TestDurationsBeyondAllBounds(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	for _, opt := range []pawl.Option{pawl.MaxHold(math.MaxInt64), pawl.TTL(math.MaxInt64)} {
		l := acquire(t, c, "a", opt)
		if err := errors.Join(l.Err(), l.Extend(context.Background(), math.MaxInt64), l.Err()); err != nil {
			t.Errorf("%T: %v", opt, err)
		}
		release(t, l)
	}
}

// A store that cannot make a TTL longer says so. Nothing is wrong with the lease, and
// it is renewed as before.
func TestRefusedExtendLeavesTheLeaseAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.renew, func(ctx context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
			if d.renewals.Load() == 1 {
				return driver.Renewal{}, errors.ErrUnsupported
			}
			return ask()
		})
		l := acquire(t, open(t, d, &pawl.Options{TTL: 3 * time.Second}), "a")
		wantIs(t, l.Extend(context.Background(), time.Minute), errors.ErrUnsupported)
		if l.State() != pawl.StateHeld {
			t.Errorf("the lease is %v; want held", l.State())
		}
		time.Sleep(10 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("Err = %v; want nil", err)
		}
		release(t, l)
	})
}

// A store whose leases do not expire leaves the fixed length to the client.
func TestNoRenewWhereLeasesDoNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memlock.Store{NoExpiry: true}
		c, other := open(t, s.Participant(), nil), open(t, s.Participant(), nil)
		l := acquire(t, c, "a", pawl.NoRenew(), pawl.TTL(10*time.Second))
		time.Sleep(5 * time.Second)
		if err := l.Extend(context.Background(), 20*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("after an extension: %v", err)
		}
		<-l.Done()
		wantIs(t, l.Err(), pawl.ErrLost)
		wantIs(t, l.Release(context.Background()), pawl.ErrLost)
		wantFree(t, other, "a")
	})
}

// TestRenewalBesideAnExtend: a renewal begins beside a call of Extend that has no answer within a sixth of the TTL.
func TestRenewalBesideAnExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		d := tap(new(memlock.Store))
		hangRenewals(d)
		l := acquire(t, open(t, d, &pawl.Options{TTL: ttl}), "a")
		go l.Extend(t.Context(), ttl)
		time.Sleep(ttl/6 + time.Millisecond)
		if n := d.renewals.Load(); n != 2 {
			t.Errorf("%d requests after a sixth of the TTL; want a renewal beside Extend", n)
		}
		set(d, &d.renew, nil)
		release(t, l)
	})
}
