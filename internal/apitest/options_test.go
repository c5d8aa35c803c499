// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// TestRefusedOptions: what cannot be is an error that says what to do.
func TestRefusedOptions(t *testing.T) {
	all := func(c *pawl.Client, ctx context.Context, name string, opts ...pawl.Option) error {
		_, err := c.AcquireAll(ctx, []string{name}, opts...)
		return err
	}
	tryAll := func(c *pawl.Client, ctx context.Context, name string, opts ...pawl.Option) error {
		_, err := c.TryAcquireAll(ctx, []string{name}, opts...)
		return err
	}
	elect := func(c *pawl.Client, ctx context.Context, name string, opts ...pawl.Option) error {
		return c.Elect(ctx, name, func(context.Context, *pawl.Lease) error { t.Error("it leads"); return nil }, opts...)
	}
	acquire := func(c *pawl.Client, ctx context.Context, name string, opts ...pawl.Option) error {
		_, err := c.Acquire(ctx, name, opts...)
		return err
	}
	try := func(c *pawl.Client, ctx context.Context, name string, opts ...pawl.Option) error {
		_, err := c.TryAcquire(ctx, name, opts...)
		return err
	}
	type call = func(*pawl.Client, context.Context, string, ...pawl.Option) error
	every, several := []call{acquire, try, all, tryAll, elect}, []call{all, tryAll}
	d := &limited{tapped: tap(new(memlock.Store))}
	d.max.Store(int64(2 * time.Minute))
	memory, far := open(t, new(memlock.Store).Participant(), nil), open(t, d, nil)
	plain := open(t, plainStore{new(memlock.Store).Participant()}, nil)
	for _, c := range []struct {
		client *pawl.Client
		calls  []call
		name   string
		opts   []pawl.Option
		says   string
	}{
		{memory, every, "", nil, "give the lock a name"},
		{memory, every, strings.Repeat("x", 1<<20), nil, "use at most 1024"},
		{memory, every, "a\x00", nil, "printable"},
		{memory, every, "a\n", nil, "printable"},
		{memory, every, "a", []pawl.Option{pawl.TTL(-time.Second)}, "use at least 10ms"},
		{memory, every, "a", []pawl.Option{pawl.TTL(9 * time.Millisecond)}, "use at least 10ms"},
		{memory, every, "a", []pawl.Option{pawl.MaxHold(-1)}, "MaxHold -1ns is negative: use a positive duration"},
		{memory, every, "a", []pawl.Option{pawl.MinHold(-1)}, "MinHold -1ns is negative"},
		{memory, every, "a", []pawl.Option{pawl.KeepIdle(-1)}, "KeepIdle -1ns is negative"},
		{memory, every, "a", []pawl.Option{pawl.ProgressEvery(-1)}, "ProgressEvery -1ns is negative"},
		{memory, every, "a", []pawl.Option{pawl.Why(strings.Repeat("x", 513))}, "use at most 512"},
		{memory, every, "a", []pawl.Option{pawl.MinHold(time.Minute), pawl.MaxHold(time.Second)}, "MinHold 1m0s is longer than MaxHold 1s"},
		{far, every, "a", []pawl.Option{pawl.MinHold(2*time.Minute + time.Millisecond)}, "MinHold 2m0.001s is longer than the MaxTTL of the store: use 2m0s at most"},
		{memory, every, "a", []pawl.Option{pawl.KeepIdle(1), pawl.Shared()}, "only exclusive leases are kept"},
		{memory, every, "a", []pawl.Option{pawl.KeepIdle(1), pawl.Slots(1)}, "only exclusive leases are kept"},
		{memory, every, "a", []pawl.Option{pawl.KeepIdle(1), pawl.MinHold(1)}, "KeepIdle and MinHold together"},
		{far, every, "a", []pawl.Option{pawl.KeepIdle(1)}, "leave it out: unsupported"},
		{memory, every, "a", []pawl.Option{pawl.Shared(), pawl.Slots(3)}, "Slots(3) together"},
		{memory, every, "a", []pawl.Option{pawl.Slots(0)}, "Slots(0): use 1"},
		{memory, every, "a", []pawl.Option{pawl.Slots(-2)}, "Slots(-2): use 1"},
		{plain, every, "a", []pawl.Option{pawl.Shared()}, "no shared leases: unsupported"},
		{plain, every, "a", []pawl.Option{pawl.Slots(2)}, "no slots: unsupported"},
		{memory, several, "a", []pawl.Option{pawl.NoRenew()}, "one by one"},
		{memory, several, "a", []pawl.Option{pawl.KeepIdle(1)}, "use Acquire"},
		{memory, several, "a", []pawl.Option{pawl.ProgressEvery(time.Second)}, "use MaxHold"},
		{memory, []call{elect}, "a", []pawl.Option{pawl.Shared()}, "several leaders"},
		{memory, []call{elect}, "a", []pawl.Option{pawl.Slots(1)}, "several leaders"},
		{memory, []call{elect}, "a", []pawl.Option{pawl.KeepIdle(1)}, "resigned"},
	} {
		for i, call := range c.calls {
			err := call(c.client, t.Context(), c.name, c.opts...)
			if !errors.As(err, new(*pawl.Error)) || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 400 {
				t.Errorf("call %d of %.20q: %v; want that it says %q", i, c.name, err, c.says)
			}
			if strings.HasSuffix(c.says, "unsupported") && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v is not ErrUnsupported", err)
			}
		}
	}
	for _, ttl := range []time.Duration{-1, time.Millisecond} {
		if _, err := pawl.New(new(memlock.Store).Participant(), &pawl.Options{TTL: ttl}); err == nil {
			t.Errorf("a client with TTL %v", ttl)
		}
	}
	if err := memory.Break(t.Context(), "a", "", "why"); err == nil || !strings.Contains(err.Error(), "Inspect") {
		t.Errorf("break without a lease id: %v", err)
	}
	if _, err := memory.AcquireAll(t.Context(), nil); err == nil {
		t.Error("AcquireAll of no names has leases")
	}
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

// TestTTLOfZero: 0 is the default, as in Options.
func TestTTLOfZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := acquire(t, open(t, new(memlock.Store).Participant(), &pawl.Options{TTL: time.Minute}), "a", pawl.TTL(0))
		if left := time.Until(l.Deadline()); left < 59*time.Second || left > time.Minute {
			t.Errorf("with TTL(0) a lease lasts for %v; want the minute of Options.TTL", left)
		}
		release(t, l)
	})
}
