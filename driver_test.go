// SPDX-License-Identifier: Apache-2.0

package pawl_test

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

// tapped is a memlock driver whose requests go through hooks. A nil hook lets
// them through. It is no Queuer, like a plain remote store.
type tapped struct {
	driver.Driver
	tries, renewals, releases atomic.Int64
	mu                        sync.Mutex // guards the hooks
	try                       func(ctx context.Context, ask func() (driver.Grant, error)) (driver.Grant, error)
	renew                     func(ctx context.Context, ask func() (driver.Instant, error)) (driver.Instant, error)
	release                   func(ctx context.Context, ask func() error) error
}

func tap(s *memlock.Store) *tapped { return &tapped{Driver: s.Driver()} }

// Guarantees says that the store is far away, so that requests have deadlines.
func (d *tapped) Guarantees() driver.Guarantees {
	g := d.Driver.Guarantees()
	g.CrossHost, g.FIFO = true, false
	return g
}

func (d *tapped) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	d.tries.Add(1)
	ask := func() (driver.Grant, error) {
		g, err := d.Driver.TryAcquire(ctx, req)
		if err != nil {
			return nil, err
		}
		return &tappedGrant{g, d}, nil
	}
	if f := hook(d, &d.try); f != nil {
		return f(ctx, ask)
	}
	return ask()
}

type tappedGrant struct {
	driver.Grant
	d *tapped
}

func (g *tappedGrant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	g.d.renewals.Add(1)
	// A store does not know that a request has been given up.
	ask := func() (driver.Instant, error) { return g.Grant.Renew(context.WithoutCancel(ctx), ttl) }
	if f := hook(g.d, &g.d.renew); f != nil {
		return f(ctx, ask)
	}
	return ask()
}

func (g *tappedGrant) Release(ctx context.Context) error {
	g.d.releases.Add(1)
	ask := func() error {
		if err := ctx.Err(); err != nil { // which memlock does not look at
			return err
		}
		return g.Grant.Release(ctx)
	}
	if f := hook(g.d, &g.d.release); f != nil {
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

func open(t testing.TB, d driver.Driver, opts *pawl.Options) *pawl.Client {
	t.Helper()
	c, err := pawl.New(d, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
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

func release(t testing.TB, l *pawl.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}
