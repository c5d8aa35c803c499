// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// adoptedMutant is an adopted grant with a mistake.
type adoptedMutant struct {
	driver.Grant
	renew   func(context.Context, time.Duration) (driver.Instant, error)
	release func(context.Context) error
}

func (g adoptedMutant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	if g.renew != nil {
		return g.renew(ctx, ttl)
	}
	return g.Grant.Renew(ctx, ttl)
}

func (g adoptedMutant) Release(ctx context.Context) error {
	if g.release != nil {
		return g.release(ctx)
	}
	return g.Grant.Release(ctx)
}

type adoptFunc func(ctx context.Context, d *mutantDriver, name, lease string) (driver.Grant, error)

// adopting passes on what Adopt returns, changed by change.
func adopting(change func(d *mutantDriver, name, lease string, g *adoptedMutant)) adoptFunc {
	return func(ctx context.Context, d *mutantDriver, name, lease string) (driver.Grant, error) {
		g, err := d.inner.(driver.Adopter).Adopt(ctx, name, lease)
		if err != nil {
			return nil, err
		}
		m := &adoptedMutant{Grant: g}
		change(d, name, lease, m)
		return m, nil
	}
}

var adoptMutants = []*mutant{
	{
		name:   "whatever holds is adopted",
		breaks: []string{"adoption-needs-the-id-of-the-holder", "adoption-of-a-lease-that-waits-is-refused"},
		adopt: func(ctx context.Context, d *mutantDriver, name, lease string) (driver.Grant, error) {
			if info, err := d.inner.Inspect(ctx, name); err == nil && len(info.Holders) > 0 {
				lease = info.Holders[0].Lease
			}
			return d.inner.(driver.Adopter).Adopt(ctx, name, lease)
		},
	},
	{
		name: "an adopted lease that has ended begins anew",
		breaks: []string{"adopted-lease-is-never-revived", "adopted-lease-ends-with-its-release", "adopted-lease-that-is-broken-tells-who-and-why",
			"adopted-reader-is-one-of-several", "adopted-slot-is-one-of-several"},
		adopt: adopting(func(d *mutantDriver, name, lease string, g *adoptedMutant) {
			g.renew = func(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
				since, err := g.Grant.Renew(ctx, ttl)
				if !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrReleased) {
					return since, err
				}
				_, err = d.inner.TryAcquire(ctx, &driver.Request{Name: name, Lease: lease, TTL: ttl, Holder: breaker})
				return driver.Now(), err
			}
		}),
	},
	{
		name:   "an adopted lease is not renewed",
		breaks: []string{"adopted-lease-outlives-its-participant", "adopted-reader-is-one-of-several", "adopted-slot-is-one-of-several"},
		adopt: adopting(func(_ *mutantDriver, _, _ string, g *adoptedMutant) {
			g.renew = func(context.Context, time.Duration) (driver.Instant, error) { return driver.Now(), nil }
		}),
	},
	{
		name:   "an adopted lease is trusted from the answer on",
		breaks: []string{"adopted-lease-outlives-its-participant"},
		adopt: adopting(func(_ *mutantDriver, _, _ string, g *adoptedMutant) {
			g.renew = func(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
				_, err := g.Grant.Renew(ctx, ttl)
				time.Sleep(ttl / 4) // for so long the answer is under way
				return driver.Now(), err
			}
		}),
	},
	{
		name:   "the release of an adopted lease ends whatever holds",
		breaks: []string{"adopted-release-spares-the-successor"},
		adopt: adopting(func(d *mutantDriver, name, _ string, g *adoptedMutant) {
			g.release = func(ctx context.Context) error { return d.breakAny(ctx, name, breaker, "") }
		}),
	},
	{
		name:   "no lease can be adopted",
		breaks: []string{"adopted-lease-outlives-its-participant"},
		adopt: func(context.Context, *mutantDriver, string, string) (driver.Grant, error) {
			return nil, &driver.LostError{Reason: driver.Gone}
		},
	},
}
