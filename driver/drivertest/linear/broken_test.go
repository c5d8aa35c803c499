// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

// broken is a participant in package memlock with a mistake. Nil makes none.
type broken struct {
	driver.Queuer
	mistake *mistake
}

type mistake struct {
	apart   bool // each participant has a store of its own
	request func(*driver.Request)
	token   func(uint64) uint64
	release func(driver.Grant) error
	renew   func(driver.Grant, time.Duration) (driver.Instant, error)
	lower   func(driver.Grant) error // instead of Downgrade
	breakIt func(d driver.Inspector, name, lease string) error
	refuse  func() bool
}

// The methods of driver.Inspector, which are not seen through driver.Queuer.
func (b *broken) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	return b.Queuer.(driver.Inspector).Inspect(ctx, name)
}

func (b *broken) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	return b.Queuer.(driver.Inspector).List(ctx, prefix)
}

func (b *broken) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	in := b.Queuer.(driver.Inspector)
	if b.mistake.breakIt != nil {
		return b.mistake.breakIt(in, name, lease)
	}
	return in.Break(ctx, name, lease, by, why)
}

func (b *broken) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if b.mistake.refuse != nil && b.mistake.refuse() {
		return nil, driver.ErrHeld
	}
	return b.grant(b.Queuer.TryAcquire(ctx, b.changed(req)))
}

func (b *broken) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	return b.grant(b.Queuer.Acquire(ctx, b.changed(req)))
}

func (b *broken) changed(req *driver.Request) *driver.Request {
	if b.mistake.request == nil {
		return req
	}
	other := *req
	b.mistake.request(&other)
	return &other
}

func (b *broken) grant(g driver.Grant, err error) (driver.Grant, error) {
	if g == nil {
		return nil, err
	}
	return &brokenGrant{g, b.mistake}, err
}

// brokenGrant hears no news and is not passed on, so that its mistakes are met.
type brokenGrant struct {
	driver.Grant
	mistake *mistake
}

func (g *brokenGrant) Token() uint64 {
	if g.mistake.token != nil {
		return g.mistake.token(g.Grant.Token())
	}
	return g.Grant.Token()
}

func (g *brokenGrant) Release(ctx context.Context) error {
	if g.mistake.release != nil {
		return g.mistake.release(g.Grant)
	}
	return g.Grant.Release(ctx)
}

func (g *brokenGrant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if g.mistake.renew != nil {
		return g.mistake.renew(g.Grant, ttl)
	}
	return g.Grant.Renew(ctx, ttl)
}

func (g *brokenGrant) Downgrade(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if g.mistake.lower != nil {
		return next{g}, g.mistake.lower(g.Grant)
	}
	shared, err := g.Grant.(driver.Downgrader).Downgrade(ctx, req)
	if shared == nil {
		return nil, err
	}
	return &brokenGrant{shared, g.mistake}, err
}

// next is a grant with the next token.
type next struct{ driver.Grant }

func (g next) Token() uint64 { return g.Grant.Token() + 1 }

// noted is a testing.TB whose failures are noted and fail nothing.
type noted struct {
	testing.TB
	mu   sync.Mutex
	text strings.Builder
}

func (n *noted) Errorf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(&n.text, format+"\n", args...)
}

const (
	unordered = "not linearizable"
	stuck     = "something is left of it"
	tooEarly  = "before its time"
)

// TestBrokenDrivers: each mistake is found in a run, and nothing is found without one.
func TestBrokenDrivers(t *testing.T) {
	done := func(err error) error {
		if errors.Is(err, driver.ErrLost) {
			return nil
		}
		return err
	}
	for name, c := range map[string]struct {
		mistake mistake
		faults  bool
		names   int    // 8 unless set
		found   string // one of what is told
	}{
		"none":                {},
		"none, with faults":   {faults: true},
		"two stores":          {mistake: mistake{apart: true}, found: unordered},
		"exclusive is shared": {mistake: mistake{request: func(r *driver.Request) { r.Shared = r.Slots == 0 }}, found: unordered},
		"slots are shared":    {mistake: mistake{request: func(r *driver.Request) { r.Shared, r.Slots = r.Shared || r.Slots > 0, 0 }}, found: unordered},
		"one slot too many": {mistake: mistake{request: func(r *driver.Request) {
			if r.Slots > 0 {
				r.Slots++
			}
		}}, found: unordered},
		"tokens repeat":                {mistake: mistake{token: func(t uint64) uint64 { return t / 2 }}, found: unordered},
		"tokens fall":                  {mistake: mistake{token: func(t uint64) uint64 { return 1<<40 - t }}, found: unordered},
		"release says nothing of loss": {mistake: mistake{release: func(g driver.Grant) error { return done(g.Release(context.Background())) }}, names: 20, found: unordered},
		"renewal says nothing of loss": {mistake: mistake{renew: func(g driver.Grant, ttl time.Duration) (driver.Instant, error) {
			now := driver.Now()
			_, err := g.Renew(context.Background(), ttl)
			return now, done(err)
		}}, names: 20, found: unordered},
		"downgrade releases":     {mistake: mistake{lower: func(g driver.Grant) error { return g.Release(context.Background()) }}, found: unordered},
		"downgrade does nothing": {mistake: mistake{lower: func(driver.Grant) error { return nil }}, found: unordered},
		"break does nothing":     {mistake: mistake{breakIt: func(driver.Inspector, string, string) error { return nil }}, found: unordered},
		"break breaks another": {mistake: mistake{breakIt: func(d driver.Inspector, name, lease string) error {
			if info, err := d.Inspect(context.Background(), name); err == nil && len(info.Holders) > 0 {
				_ = d.Break(context.Background(), name, info.Holders[0].Lease, &driver.Holder{}, "")
			}
			return driver.ErrReleased
		}}, found: unordered},
		"leases end too early": {mistake: mistake{request: func(r *driver.Request) { r.TTL /= 4 }}, faults: true, found: unordered},
		"store forgets leases": {mistake: mistake{renew: func(g driver.Grant, _ time.Duration) (driver.Instant, error) {
			_ = g.Release(context.Background())
			return 0, &driver.LostError{Reason: driver.Gone}
		}}, faults: true, found: tooEarly},
		"some releases do nothing": {mistake: mistake{release: func(g driver.Grant) error {
			if g.Token()%64 == 0 {
				return nil
			}
			return g.Release(context.Background())
		}}, found: unordered},
		"refused by nobody": {mistake: mistake{refuse: func() bool { return time.Now().UnixNano()%16 == 0 }}, found: unordered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// What is looked for at random is missed now and then.
			text := found(t, &c.mistake, c.faults, cmp.Or(c.names, 8))
			for range 4 {
				if c.found == "" || text != "" {
					break
				}
				text = found(t, &c.mistake, c.faults, cmp.Or(c.names, 8))
			}
			if (text != "") != (c.found != "") || !strings.Contains(text, c.found) {
				t.Errorf("found %.2000q; want %q", text, c.found)
			}
		})
	}
}

// found returns what the check says of a run with a mistake.
func found(t *testing.T, m *mistake, faults bool, names int) string {
	t.Helper()
	n, ttl := &noted{TB: t}, time.Second
	if faults {
		ttl = 400 * time.Millisecond
	}
	r := start(n, drivertest.Harness{
		TTL: ttl, Slack: 100 * time.Millisecond,
		Start: func(testing.TB) drivertest.Store {
			s := new(memlock.Store)
			return drivertest.Store{Open: func(testing.TB) driver.Driver {
				if m.apart {
					s = new(memlock.Store)
				}
				return &broken{s.Driver().(driver.Queuer), m}
			}}
		},
	})
	trouble := r.breakLinks
	if !faults {
		trouble = nil
	}
	r.record(names*perName, trouble)
	r.check()
	return n.text.String()
}
