// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/memlock"
)

func TestBadInputGetsAHint(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	ctx := context.Background()
	for _, in := range []struct {
		name string
		opt  pawl.Option
		hint string
	}{
		{"", nil, "give the lock a name"},
		{strings.Repeat("x", 1<<20), nil, "use at most 1024"},
		{"a\x00", nil, "printable"},
		{"a\n", nil, "printable"},
		{"a", pawl.TTL(-time.Second), "use at least 10ms"},
		{"a", pawl.TTL(9 * time.Millisecond), "use at least 10ms"},
		{"a", pawl.MaxHold(-1), "use a positive duration"},
		{"a", pawl.Why(strings.Repeat("x", 513)), "use at most 512"},
	} {
		for op, call := range map[string]func(context.Context, string, ...pawl.Option) (*pawl.Lease, error){
			"acquire": c.Acquire, "try": c.TryAcquire,
		} {
			_, err := call(ctx, in.name, in.opt)
			var e *pawl.Error
			if !errors.As(err, &e) || e.Op != op || !strings.Contains(err.Error(), in.hint) || len(err.Error()) > 400 {
				t.Errorf("%s %.20q: %v; want a hint like %q", op, in.name, err, in.hint)
			}
		}
	}
	if err := c.Break(ctx, "a", "", "why"); err == nil || !strings.Contains(err.Error(), "Inspect") {
		t.Errorf("break without a lease id: %v", err)
	}
	for _, ttl := range []time.Duration{-1, time.Millisecond} {
		if _, err := pawl.New(new(memlock.Store).Participant(), &pawl.Options{TTL: ttl}); err == nil {
			t.Errorf("a client with TTL %v", ttl)
		}
	}
}

func TestMissingGuaranteeIsRefusedWhenTheClientIsMade(t *testing.T) {
	_, err := pawl.New(new(memlock.Store).Participant(), &pawl.Options{Require: pawl.Guarantees{CrossHost: true}})
	wantIs(t, err, errors.ErrUnsupported)
	if !strings.Contains(err.Error(), "CrossHost") {
		t.Errorf("%v does not name what is missing", err)
	}
}

func TestHeldErrorNamesTheHolder(t *testing.T) {
	s := new(memlock.Store)
	l := acquire(t, open(t, s.Participant(), &pawl.Options{Holder: pawl.Holder{User: "alice", Host: "ci-7"}}), "a", pawl.Why("release 7"))
	for _, c := range []*pawl.Client{open(t, s.Participant(), nil), open(t, s.Participant(), nil)} {
		_, err := c.TryAcquire(context.Background(), "a")
		var held *pawl.HeldError
		if !errors.As(err, &held) || held.Info.Holders[0].User != "alice" || held.Info.Holders[0].Why != "release 7" {
			t.Errorf("error is %v", err)
		}
		if want := `pawl: try "a": held by alice@ci-7 (pid `; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %q does not begin with %q", err, want)
		}
	}
	release(t, l)
}

func TestUncertainAttemptIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		set(d, &d.try, answerLost)
		c := open(t, d, &pawl.Options{TTL: time.Hour})
		_, err := c.TryAcquire(context.Background(), "a")
		wantIs(t, err, pawl.ErrUncertain)
		synctest.Wait()
		if _, err := open(t, s.Participant(), nil).TryAcquire(context.Background(), "a"); err != nil {
			t.Errorf("what the store recorded was not undone: %v", err)
		}
	})
}

func TestUnreachableStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.try, unreachable)
		began := time.Now()
		_, err := open(t, d, nil).Acquire(context.Background(), "a")
		wantIs(t, err, pawl.ErrUnavailable)
		wantIs(t, err, errNet)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a store that was never reached was told after %v, want at once", waited)
		}
	})
}

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
		func() {
			defer func() { recover() }()
			c.Do(ctx, "b", func(context.Context, *pawl.Lease) error { panic("work failed") })
		}()
		if _, err := c.TryAcquire(ctx, "b"); err != nil {
			t.Errorf("the name is not free after a panic: %v", err)
		}
	})
}

func TestGrantThatTookLongerThanItsTTLIsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		set(d, &d.try, late(time.Second-driver.Drift(time.Second)))
		c := open(t, d, &pawl.Options{TTL: time.Second})
		for _, call := range []func(context.Context, string, ...pawl.Option) (*pawl.Lease, error){c.Acquire, c.TryAcquire} {
			_, err := call(context.Background(), "a")
			wantIs(t, err, pawl.ErrUnavailable)
			if !strings.Contains(err.Error(), "use a longer one") {
				t.Errorf("no hint in: %v", err)
			}
			synctest.Wait()
		}
	})
}

// TestRequests: what the options make of the request to the store. A lease that is kept begins with its whole TTL, and so
// does one that the store has to keep if the process ends.
func TestRequests(t *testing.T) {
	for what, c := range map[string]struct {
		opts []pawl.Option
		want driver.Request
	}{
		"no options": {nil, driver.Request{TTL: pawl.DefaultTTL, Renewed: true}},
		"TTL, Why":   {[]pawl.Option{pawl.TTL(time.Minute), pawl.Why("x")}, driver.Request{TTL: time.Minute, Why: "x", Renewed: true}},
		"NoRenew":    {[]pawl.Option{pawl.NoRenew()}, driver.Request{TTL: pawl.DefaultTTL}},
		"MinHold":    {[]pawl.Option{pawl.MinHold(time.Second)}, driver.Request{TTL: pawl.DefaultTTL}},
		"KeepIdle":   {[]pawl.Option{pawl.KeepIdle(time.Second)}, driver.Request{TTL: pawl.DefaultTTL, Keeps: true}},
		"Shared":     {[]pawl.Option{pawl.Shared()}, driver.Request{TTL: pawl.DefaultTTL, Shared: true, Renewed: true}},
		"Slots":      {[]pawl.Option{pawl.Slots(3)}, driver.Request{TTL: pawl.DefaultTTL, Slots: 3, Renewed: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := recall(new(memlock.Store))
			l := acquire(t, open(t, d, nil), "a", c.opts...)
			got := driver.Request{TTL: d.last.TTL, Why: d.last.Why, Shared: d.last.Shared, Slots: d.last.Slots, Renewed: d.last.Renewed, Keeps: d.last.Keeps}
			if !reflect.DeepEqual(got, c.want) || d.last.Name != "a" || d.last.Lease != l.ID() {
				t.Errorf("%s: the request is %+v; want %+v", what, d.last, c.want)
			}
			release(t, l)
		})
	}
}
