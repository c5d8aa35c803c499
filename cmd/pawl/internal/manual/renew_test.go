// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/acquire"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/memlock"
)

// slow is how long answers are under way in these tests, and longTTL one with a drift of more
// than the second to which expiries are rounded.
const (
	slow    = 5 * time.Second
	longTTL = 10 * time.Minute
)

// slowly has answers come late.
type slowly struct{ driver.Store }

func (d slowly) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	ans, err := d.Store.Ask(ctx, req)
	time.Sleep(slow)
	return ans, err
}

func (d slowly) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	r, err := d.Store.Renew(ctx, l, ttl)
	time.Sleep(slow)
	return r, err
}

// slowStore returns a store whose answers come late, and one of the same leases whose answers do not.
func slowStore(t *testing.T) (*stores.Store, driver.Store) {
	d := new(memlock.Store).Participant()
	c, err := pawl.New(slowly{d}, &pawl.Options{TTL: longTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	u, err := stores.Parse("mem://test")
	if err != nil {
		t.Fatal(err)
	}
	return &stores.Store{Client: c, URL: u, Wire: d}, d
}

// expires checks what was printed about a lease that was asked for at sent: it is held for no
// longer than the store keeps it, which a slow answer does not change, less the drift.
func expires(t *testing.T, printed string, sent time.Time) {
	t.Helper()
	want := sent.Add(longTTL - driver.Drift(longTTL)).UTC().Truncate(time.Second).Format(time.RFC3339)
	if !strings.Contains(printed, want) {
		t.Errorf("printed is %q; want %s, which counts from before the request, and less the drift", printed, want)
	}
}

// TestRenewExpiry: what renew prints.
func TestRenewExpiry(t *testing.T) {
	for _, json := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			s, d := slowStore(t)
			d.Listen(func(driver.Event) {})
			if _, err := d.Ask(t.Context(), &driver.Request{Name: "deploy", Lease: "id", TTL: longTTL, Holder: &driver.Holder{}}); err != nil {
				t.Fatal(err)
			}
			g, err := participant.Adopt(t.Context(), slowly{d}, "deploy", "id")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			r := &adoption{App: &cli.App{Stdout: &out, JSON: json}, name: "deploy", lease: "id", ttl: longTTL}
			sent := time.Now()
			if err := r.renew(t.Context(), s, g); err != nil {
				t.Fatal(err)
			}
			expires(t, out.String(), sent)
		})
	}
}

// TestAcquireExpiry: what acquire --json prints.
func TestAcquireExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s, _ := slowStore(t)
		sent := time.Now()
		lease, err := s.TryAcquire(t.Context(), "deploy", pawl.NoRenew())
		if err != nil {
			t.Fatal(err)
		}
		a := &cli.App{Stdout: &out, JSON: true}
		if err := tellLease(a, &acquire.Session{Args: &acquire.Args{Name: "deploy", TTL: longTTL}, Store: s}, lease); err != nil {
			t.Fatal(err)
		}
		expires(t, out.String(), sent)
	})
}
