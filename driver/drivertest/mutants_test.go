// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// onlyPawl are the tests that no mistake of a driver makes fail: they check what
// package pawl does with the faults of a sound one.
var onlyPawl = map[string]bool{
	"client-call-with-ended-context-records-nothing": true,
	"unreachable-store-is-told-at-once":              true,
}

var mutants = slices.Concat(grantMutants, expiryMutants, nameMutants, queueMutants, inspectMutants, reserveMutants,
	sharedMutants, downgradeMutants, slotsMutants, adoptMutants, recallMutants)

var grantMutants = []*mutant{
	{
		name:   "no exclusion between participants",
		breaks: []string{"one-holder-at-a-time", "holders-never-overlap-under-load", "clients-never-overlap-under-load"},
		open:   func(*memlock.Store) *memlock.Store { return new(memlock.Store) },
	},
	{
		name:   "a participant excludes others but not itself",
		breaks: []string{"one-holder-at-a-time"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			same := *req
			same.Lease = fmt.Sprintf("%p", d)
			return d.grant(req)(do(ctx, &same))
		},
	},
	{
		name:   "release without owner check",
		breaks: []string{"late-release-spares-successor", "second-release-spares-successor", "generated-histories-agree-with-the-model"},
		release: func(ctx context.Context, g *mutantGrant) error {
			return g.d.breakAny(ctx, g.req.Name, g.req.Holder, "")
		},
	},
	{
		name:    "release does nothing",
		breaks:  []string{"release-frees-the-name", "close-of-a-client-frees-its-leases"},
		release: func(context.Context, *mutantGrant) error { return nil },
	},
	{
		name: "token forgotten on release",
		breaks: []string{"token-grows-with-every-grant", "token-grows-after-expiry", "token-grows-across-a-crash",
			"generated-histories-agree-with-the-model"},
		token: func(*mutantGrant) uint64 { return 1 },
	},
	{
		name:   "renewal revives after release",
		breaks: []string{"renewal-after-release-never-revives"},
		renew: func(ctx context.Context, g *mutantGrant, ttl time.Duration) (driver.Instant, error) {
			since, err := g.fullGrant.Renew(ctx, ttl)
			if errors.Is(err, driver.ErrReleased) {
				_, err = g.d.inner.TryAcquire(ctx, g.req)
				return driver.Now(), err
			}
			return since, err
		},
	},
	{
		name:   "repeated attempt counts as a second hold",
		breaks: []string{"repeated-attempt-is-harmless"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			g, err := d.grant(req)(do(ctx, req))
			if err == nil {
				d.count(req.Lease, 1)
			}
			return g, err
		},
		release: func(ctx context.Context, g *mutantGrant) error {
			if g.d.count(g.req.Lease, -1) > 0 {
				return nil
			}
			return g.fullGrant.Release(ctx)
		},
	},
	{
		name:   "repeated attempt steals",
		breaks: []string{"repeated-attempt-spares-another-holder"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			if d.count(req.Lease, 1) > 1 {
				d.breakAny(ctx, req.Name, req.Holder, "")
			}
			return d.grant(req)(do(ctx, req))
		},
	},
	{
		name:   "ended context is not looked at",
		breaks: []string{"ended-context-records-nothing"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			if ctx.Err() != nil {
				ctx = context.WithoutCancel(ctx)
			}
			return d.grant(req)(do(ctx, req))
		},
	},
	{
		name:   "context error masked",
		breaks: []string{"ended-context-records-nothing", "cancelled-waiter-of-a-held-name-returns-at-once"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			g, err := d.grant(req)(do(ctx, req))
			if err != nil && ctx.Err() != nil {
				err = driver.ErrUnavailable
			}
			return g, err
		},
	},
	{
		name:   "lease ends with the context that asked for it",
		breaks: []string{"waiting-context-does-not-end-the-lease"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			g, err := do(ctx, req)
			if err == nil {
				context.AfterFunc(ctx, func() { g.Release(context.Background()) })
			}
			return d.grant(req)(g, err)
		},
	},
	{
		name:   "close ends the leases of others",
		breaks: []string{"close-spares-other-participants"},
		close: func(d *mutantDriver) {
			infos, _ := d.inner.List(context.Background(), "")
			for _, info := range infos {
				d.breakAny(context.Background(), info.Name, &driver.Holder{}, "")
			}
			d.inner.Close()
		},
	},
	{
		name:   "closed participant goes on",
		breaks: []string{"close-spares-other-participants"},
		close:  func(*mutantDriver) {},
	},
}

var expiryMutants = []*mutant{
	{
		name:    "expires too early",
		breaks:  []string{"expiry-is-not-before-since-plus-ttl", "cut-off-client-stops-before-the-next-begins"},
		request: func(req *driver.Request) { req.TTL = req.TTL * 9 / 10 },
		renew: func(ctx context.Context, g *mutantGrant, ttl time.Duration) (driver.Instant, error) {
			return g.fullGrant.Renew(ctx, ttl*9/10)
		},
	},
	{
		name:    "expires too late",
		breaks:  []string{"expiry-frees-the-name", "crash-frees-the-name", "waiter-wakes-on-crash-of-the-holder"},
		request: func(req *driver.Request) { req.TTL *= 50 },
	},
	{
		name:   "trust counts from the future",
		breaks: []string{"since-lies-within-the-call", "cut-off-client-stops-before-the-next-begins"},
		since:  func(g *mutantGrant) driver.Instant { return g.fullGrant.Since().Add(time.Second) },
		renew: func(ctx context.Context, g *mutantGrant, ttl time.Duration) (driver.Instant, error) {
			since, err := g.fullGrant.Renew(ctx, ttl)
			return since.Add(time.Second), err
		},
	},
	{
		name:   "trust given away",
		breaks: []string{"since-lies-within-the-call"},
		since:  func(g *mutantGrant) driver.Instant { return g.fullGrant.Since().Add(-time.Second) },
	},
	{
		name:   "trust counts from the answer",
		breaks: []string{"since-lies-within-the-call"},
		since:  func(g *mutantGrant) driver.Instant { return g.began },
	},
	{
		name:   "trust counts from the answer to a renewal",
		breaks: []string{"since-lies-within-the-call"},
		renew: func(ctx context.Context, g *mutantGrant, ttl time.Duration) (driver.Instant, error) {
			_, err := g.fullGrant.Renew(ctx, ttl)
			time.Sleep(g.d.late)
			return driver.Now(), err
		},
	},
	{
		name:   "late renewal revives",
		breaks: []string{"late-renewal-never-revives", "generated-histories-agree-with-the-model"},
		renew: func(ctx context.Context, g *mutantGrant, ttl time.Duration) (driver.Instant, error) {
			since, err := g.fullGrant.Renew(ctx, ttl)
			if errors.Is(err, driver.ErrLost) {
				if _, err := g.d.inner.TryAcquire(ctx, g.req); err == nil {
					return driver.Now(), nil
				}
			}
			return since, err
		},
	},
	{
		name:   "late renewal ends the successor",
		breaks: []string{"late-renewal-spares-successor"},
		renew: func(ctx context.Context, g *mutantGrant, ttl time.Duration) (driver.Instant, error) {
			since, err := g.fullGrant.Renew(ctx, ttl)
			if err != nil {
				g.d.breakAny(ctx, g.req.Name, g.req.Holder, "")
			}
			return since, err
		},
	},
	{
		name:   "renewal does nothing",
		breaks: []string{"renewal-extends", "client-holds-beyond-the-ttl"},
		renew: func(context.Context, *mutantGrant, time.Duration) (driver.Instant, error) {
			return driver.Now(), nil
		},
	},
	{
		name:   "renewal keeps the old ttl",
		breaks: []string{"renewal-takes-the-new-ttl"},
		renew: func(ctx context.Context, g *mutantGrant, _ time.Duration) (driver.Instant, error) {
			return g.fullGrant.Renew(ctx, g.req.TTL)
		},
	},
	{
		name:   "renewal shortens",
		breaks: []string{"renewal-never-shortens"},
		renew: func(ctx context.Context, g *mutantGrant, ttl time.Duration) (driver.Instant, error) {
			if ttl <= g.req.TTL {
				time.AfterFunc(ttl, func() { g.fullGrant.Release(context.Background()) })
			}
			return g.fullGrant.Renew(ctx, ttl)
		},
	},
	{
		name:   "late release says nothing",
		breaks: []string{"late-release-says-lost", "late-release-spares-successor"},
		release: func(ctx context.Context, g *mutantGrant) error {
			if err := g.fullGrant.Release(ctx); err != nil && !errors.Is(err, driver.ErrLost) {
				return err
			}
			return nil
		},
	},
}

var nameMutants = []*mutant{
	nameMutant("names folded", "names-of-every-kind", strings.ToLower),
	nameMutant("names cleaned as paths", "names-of-every-kind", path.Clean),
	nameMutant("names trimmed", "names-of-every-kind", strings.TrimSpace),
	nameMutant("names cut at 255 bytes", "longest-names-differ-at-their-end", func(s string) string { return s[:min(255, len(s))] }),
	nameMutant("names hashed to 6 bits", "names-do-not-disturb-each-other", func(s string) string {
		n := 0
		for _, b := range []byte(s) {
			n = (n*31 + int(b)) % 64
		}
		return fmt.Sprint(n)
	}),
	{
		name:   "names with a slash refused",
		breaks: []string{"names-of-every-kind"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			if strings.HasSuffix(req.Name, "/") {
				return nil, errors.New("bad name")
			}
			return d.grant(req)(do(ctx, req))
		},
	},
}

func nameMutant(name, test string, change func(string) string) *mutant {
	return &mutant{name: name, breaks: []string{test}, request: func(req *driver.Request) { req.Name = change(req.Name) }}
}

// newLease makes an attempt a new one.
func newLease(req *driver.Request) *driver.Request {
	other := *req
	other.Lease = rand.Text()
	return &other
}
