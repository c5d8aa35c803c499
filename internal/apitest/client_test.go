// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/memlock"
)

var unreachable = fails(errors.Join(driver.ErrUnavailable, errNet))

// TestRefusingStore: a store that has answered before and then refuses is not silent. A waiter goes on if that may
// pass, and hears at once if it does not. It goes on for one TTL if the store is silent, whatever silence was before.
func TestRefusingStore(t *testing.T) {
	const ttl = 10 * time.Second
	for _, c := range []struct {
		refusal error
		wait    time.Duration
		says    string
	}{
		{storekit.OfKind(driver.ErrRefused, errors.New("LOADING")), 3 * ttl, "deadline exceeded"},
		{errNet, ttl, "it has not answered for 10"},
		{storekit.OfKind(storekit.ErrDenied, errors.New("NOPERM")), 0, "NOPERM"},
		{storekit.OfKind(storekit.ErrConfig, errors.New("WRONGTYPE")), 0, "WRONGTYPE"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := new(memlock.Store)
			d := tap(s)
			l := acquire(t, open(t, s.Participant(), nil), "a")
			time.AfterFunc(20*time.Second, func() { set(d, &d.try, unreachable) })
			time.AfterFunc(20*time.Second+ttl/2, func() { set(d, &d.try, nil) })
			time.AfterFunc(time.Minute, func() {
				set(d, &d.try, fails(fmt.Errorf("%w: %w", driver.ErrUnavailable, c.refusal)))
			})
			began := time.Now()
			ctx := within(t, time.Minute+3*ttl)
			_, err := open(t, d, &pawl.Options{TTL: ttl}).Acquire(ctx, "a")
			if waited := time.Since(began) - time.Minute; waited < c.wait-maxPause || waited > c.wait+maxPause {
				t.Errorf("%v: gave up after %v; want %v", c.refusal, waited, c.wait)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Acquire = %v; want that it says %q", err, c.says)
			}
			release(t, l)
		})
	}
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		c := open(t, d, &pawl.Options{TTL: time.Second})
		ctx := context.Background()
		if err := c.Do(ctx, "a", func(ctx context.Context, l *pawl.Lease) error { return l.Err() }); err != nil {
			t.Error(err)
		}
		for _, do := range []func(context.Context, string, func(context.Context, *pawl.Lease) error, ...pawl.Option) error{c.Do, c.TryDo} {
			err := do(ctx, "a", func(ctx context.Context, _ *pawl.Lease) error {
				wantIs(t, open(t, s.Participant(), nil).TryDo(ctx, "a", func(context.Context, *pawl.Lease) error { return nil }), pawl.ErrHeld)
				return errNet
			})
			if err != errNet {
				t.Errorf("error is %v, want f's own", err)
			}
		}
		cutRenewals(d)
		err := c.Do(ctx, "a", func(ctx context.Context, _ *pawl.Lease) error {
			<-ctx.Done()
			return ctx.Err()
		})
		wantIs(t, err, pawl.ErrLost)
		wantIs(t, err, context.Canceled)
		wantOne(t, "Do", err) // a program that tries again after an outage would do its work twice
		if n := strings.Count(err.Error(), "lease lost"); n != 1 {
			t.Errorf("%q says %d times that the lease was lost", err, n)
		}
		func() {
			defer func() { recover() }()
			c.Do(ctx, "b", func(context.Context, *pawl.Lease) error { panic("work failed") })
		}()
		if _, err := c.TryAcquire(ctx, "b"); err != nil {
			t.Errorf("the name is not free after a panic: %v", err)
		}
	})
}
