// SPDX-License-Identifier: Apache-2.0

// Package apitest tests package pawl from outside: what its exported names promise, on stores in memory and in fake
// time. The clients of other packages' tests are real ones too; what every store must do is in wiretest.
package apitest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// tapped is a participant of a memlock store whose requests go through hooks. A nil hook lets
// them through. It has no queue and shows nothing, like a plain remote store.
type tapped struct {
	driver.Store
	tries, renewals, releases atomic.Int64
	mu                        sync.Mutex     // guards what follows
	last                      driver.Request // for a lease
	try                       func(ctx context.Context, ask func() (driver.Answer, error)) (driver.Answer, error)
	renew                     func(ctx context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error)
	release                   func(ctx context.Context, ask func() (bool, error)) (bool, error)
}

func tap(s *memlock.Store) *tapped { return &tapped{Store: s.Participant()} }

// Caps says that the store is far away, so that requests have deadlines.
func (d *tapped) Caps() driver.Caps {
	c := d.Store.Caps()
	return driver.Caps{Guarantees: driver.Guarantees{Fencing: true, Expiry: c.Expiry, Shared: c.Shared, Slots: c.Slots, CrossHost: true}, LongerTTL: true}
}

func (d *tapped) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	d.tries.Add(1)
	set(d, &d.last, *req)
	ask := func() (driver.Answer, error) { return d.Store.Ask(ctx, req) }
	if f := hook(d, &d.try); f != nil {
		return f(ctx, ask)
	}
	return ask()
}

func (d *tapped) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	d.renewals.Add(1)
	// A store does not know that a request has been given up.
	ask := func() (driver.Renewal, error) { return d.Store.Renew(context.WithoutCancel(ctx), l, ttl) }
	if f := hook(d, &d.renew); f != nil {
		return f(ctx, ask)
	}
	return ask()
}

func (d *tapped) End(ctx context.Context, l driver.Ref, how driver.End) (bool, error) {
	d.releases.Add(1)
	ask := func() (bool, error) {
		if err := ctx.Err(); err != nil { // which memlock does not look at
			return false, err
		}
		return d.Store.End(ctx, l, how)
	}
	if f := hook(d, &d.release); f != nil {
		return f(ctx, ask)
	}
	return ask()
}

func hook[F any](d *tapped, f *F) F {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *f
}

// set exchanges a hook while requests may be under way.
func set[F any](d *tapped, f *F, to F) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*f = to
}

// A tried is a hook for requests for a lease.
type tried = func(ctx context.Context, ask func() (driver.Answer, error)) (driver.Answer, error)

func fails(err error) tried {
	return func(context.Context, func() (driver.Answer, error)) (driver.Answer, error) {
		return driver.Answer{}, err
	}
}

// late delays the answers.
func late(by time.Duration) tried {
	return func(_ context.Context, ask func() (driver.Answer, error)) (driver.Answer, error) {
		defer time.Sleep(by)
		return ask()
	}
}

func answerLost(_ context.Context, ask func() (driver.Answer, error)) (driver.Answer, error) {
	ans, err := ask()
	return ans, errors.Join(driver.ErrUncertain, err)
}

// showing is a store whose Inspect goes through a hook. A nil hook lets it through.
type showing struct {
	driver.Store
	inspect atomic.Pointer[inspect]
}

type inspect func(ctx context.Context, name string) (*driver.Info, error)

func show(s *memlock.Store, f inspect) *showing { return showOf(s.Participant(), f) }

func showOf(s driver.Store, f inspect) *showing {
	d := &showing{Store: s}
	d.set(f)
	return d
}

func (d *showing) Caps() driver.Caps {
	c := d.Store.Caps()
	c.Shows = true
	return c
}

func (d *showing) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	if f := *d.inspect.Load(); f != nil {
		return f(ctx, name)
	}
	return d.Store.Inspect(ctx, name)
}

func (d *showing) set(f inspect) { d.inspect.Store(&f) }

func open(t testing.TB, d driver.Store, opts *pawl.Options) *pawl.Client {
	t.Helper()
	c, err := pawl.New(d, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// pair returns a store with two clients.
func pair(t testing.TB) (s *memlock.Store, c, other *pawl.Client) {
	t.Helper()
	s = new(memlock.Store)
	return s, open(t, s.Participant(), nil), open(t, s.Participant(), nil)
}

func acquire(t testing.TB, c *pawl.Client, name string, opts ...pawl.Option) *pawl.Lease {
	t.Helper()
	l, err := c.Acquire(context.Background(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want %v", err, target)
	}
}

// release gives back a lease, or several.
func release(t testing.TB, l interface{ Release(context.Context) error }) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// isFree reports whether nobody holds name.
func isFree(t testing.TB, c *pawl.Client, name string) bool {
	t.Helper()
	l, err := c.TryAcquire(context.Background(), name)
	if err == nil {
		release(t, l)
	}
	return err == nil
}

func wantFree(t testing.TB, c *pawl.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		if l, err := c.TryAcquire(context.Background(), name); err != nil {
			t.Errorf("%q is not free: %v", name, err)
		} else {
			release(t, l)
		}
	}
}

// under returns a context that ends with l.
func under(t testing.TB, l interface {
	Context(context.Context) (context.Context, context.CancelFunc)
}) context.Context {
	ctx, cancel := l.Context(context.Background())
	t.Cleanup(cancel)
	return ctx
}

// within returns a context that ends after d.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func breaks(t testing.TB, c *pawl.Client, l *pawl.Lease, why string) {
	t.Helper()
	if err := c.Break(context.Background(), l.Name(), l.ID(), why); err != nil {
		t.Fatal(err)
	}
}
