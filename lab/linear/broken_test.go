// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/memlock"
)

// broken is a participant in package memlock with a mistake. Nil makes none.
type broken struct {
	driver.Store
	mistake *mistake
}

type mistake struct {
	apart   bool // each participant has a store of its own
	request func(*driver.Request)
	token   func(uint64) uint64
	release func(s driver.Store, l driver.Ref) (bool, error)
	renew   func(s driver.Store, l driver.Ref, ttl time.Duration) (driver.Renewal, error)
	lower   func(s driver.Store, name, lease string) // instead of a downgrade
	breakIt func(s driver.Store, name, lease string) error
	refuse  func() bool
}

// Caps says that leases are not kept: their mistakes are to be met.
func (b *broken) Caps() driver.Caps {
	c := b.Store.Caps()
	c.Keeps = false
	return c
}

func (b *broken) Listen(f func(driver.Event)) {
	b.Store.Listen(func(e driver.Event) {
		if e.Kind != driver.Lost { // it hears no news, so that the mistakes of renewals are met
			e.Grant = b.changed(e.Grant)
			f(e)
		}
	})
}

func (b *broken) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	other := *req
	switch {
	case b.mistake.refuse != nil && !req.Queue && b.mistake.refuse():
		return driver.Answer{Holders: []driver.Held{{Lease: "nobody"}}}, nil
	case req.Instead != "" && b.mistake.lower != nil:
		b.mistake.lower(b.Store, req.Name, req.Instead)
		return driver.Answer{Granted: true, Token: 1 << 50, Since: driver.Now()}, nil
	case b.mistake.request != nil:
		b.mistake.request(&other)
	}
	ans, err := b.Store.Ask(ctx, &other)
	return b.changed(ans), err
}

func (b *broken) changed(ans driver.Answer) driver.Answer {
	if b.mistake.token != nil && ans.Token != 0 {
		ans.Token = b.mistake.token(ans.Token)
	}
	return ans
}

func (b *broken) End(ctx context.Context, l driver.Ref, how driver.End) (bool, error) {
	if b.mistake.release != nil {
		return b.mistake.release(b.Store, l)
	}
	return b.Store.End(ctx, l, how)
}

func (b *broken) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if b.mistake.renew != nil {
		return b.mistake.renew(b.Store, l, ttl)
	}
	return b.Store.Renew(ctx, l, ttl)
}

func (b *broken) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if b.mistake.breakIt != nil {
		return b.mistake.breakIt(b.Store, name, lease)
	}
	return b.Store.Break(ctx, name, lease, by, why)
}

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
	bg := context.Background()
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
		"tokens repeat": {mistake: mistake{token: func(t uint64) uint64 { return t / 2 }}, found: unordered},
		"tokens fall":   {mistake: mistake{token: func(t uint64) uint64 { return 1<<40 - t }}, found: unordered},
		"release says nothing of loss": {mistake: mistake{release: func(s driver.Store, l driver.Ref) (bool, error) {
			_, err := s.End(bg, l, driver.End{})
			return true, err
		}}, names: 20, found: unordered},
		"renewal says nothing of loss": {mistake: mistake{renew: func(s driver.Store, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			now := driver.Now()
			_, _ = s.Renew(bg, l, ttl)
			return driver.Renewal{Since: now}, nil
		}}, names: 20, found: unordered},
		"downgrade releases": {mistake: mistake{lower: func(s driver.Store, name, lease string) {
			_, _ = s.End(bg, driver.Ref{Name: name, Lease: lease}, driver.End{})
		}}, found: unordered},
		"downgrade does nothing": {mistake: mistake{lower: func(driver.Store, string, string) {}}, found: unordered},
		"break does nothing":     {mistake: mistake{breakIt: func(driver.Store, string, string) error { return nil }}, found: unordered},
		"break breaks another": {mistake: mistake{breakIt: func(d driver.Store, name, lease string) error {
			if info, err := d.Inspect(context.Background(), name); err == nil && len(info.Holders) > 0 {
				_ = d.Break(context.Background(), name, info.Holders[0].Lease, &driver.Holder{}, "")
			}
			return driver.ErrReleased
		}}, found: unordered},
		"leases end too early": {mistake: mistake{request: func(r *driver.Request) { r.TTL /= 4 }}, faults: true, found: unordered},
		"store forgets leases": {mistake: mistake{renew: func(s driver.Store, l driver.Ref, _ time.Duration) (driver.Renewal, error) {
			_, _ = s.End(bg, l, driver.End{})
			return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
		}}, faults: true, found: tooEarly},
		"some releases do nothing": {mistake: mistake{release: func(s driver.Store, l driver.Ref) (bool, error) {
			if l.Lease[0] == 'a' {
				return true, nil
			}
			return s.End(bg, l, driver.End{})
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
	r := start(n, wiretest.Harness{
		TTL: ttl,
		Start: func(testing.TB) wiretest.Service {
			s := new(memlock.Store)
			return wiretest.Service{Open: func(testing.TB) driver.Store {
				if m.apart {
					s = new(memlock.Store)
				}
				return &broken{s.Participant(), m}
			}}
		},
	})
	trouble := (*run).breakLinks
	if !faults {
		trouble = nil
	}
	r.record(names*perName, trouble)
	r.check()
	return n.text.String()
}
