// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"

	"github.com/pawl-go/pawl/driver"
)

var recallMutants = []*mutant{
	{
		name: "nobody tells a keeper",
		breaks: []string{"kept-lease-hears-of-a-waiter", "kept-lease-hears-of-who-was-refused", "kept-lease-that-was-waited-for-hears-of-others",
			"name-that-nobody-uses-goes-to-whoever-asks"},
		wanted: func(*mutantGrant, driver.Recallable, func(driver.Recall)) {},
	},
	{
		name:   "a keeper is told once",
		breaks: []string{"kept-lease-hears-of-who-was-refused"},
		wanted: func(g *mutantGrant, r driver.Recallable, f func(driver.Recall)) {
			r.OnWanted(func(how driver.Recall) {
				if g.d.count("told "+g.req.Lease, 1) == 1 {
					f(how)
				}
			})
		},
	},
	{
		name:   "a keeper is always told that somebody waits",
		breaks: []string{"kept-lease-hears-of-who-was-refused", "lease-in-use-is-not-asked-for"},
		wanted: func(_ *mutantGrant, r driver.Recallable, f func(driver.Recall)) {
			r.OnWanted(func(driver.Recall) { f(driver.Waits) })
		},
	},
	{
		name:    "nothing is kept",
		breaks:  []string{"kept-lease-hears-of-a-waiter", "kept-lease-has-reserved-tokens", "in-use-of-an-ended-lease-spares-its-successor"},
		request: func(req *driver.Request) { req.Keeps = false },
	},
	{
		name:    "everything is kept",
		breaks:  []string{"lease-that-is-not-kept-is-not-asked-for"},
		request: func(req *driver.Request) { req.Keeps = true },
	},
	{
		name:   "a keeper has one token",
		breaks: []string{"kept-lease-has-reserved-tokens"},
		aside:  func(*mutantGrant) uint64 { return 0 },
	},
	{
		name:   "InUse does nothing",
		breaks: []string{"lease-in-use-is-not-asked-for"},
		inUse:  func(context.Context, *mutantGrant, driver.Recallable) error { return nil },
	},
	{
		name:   "InUse ends a lease",
		breaks: []string{"in-use-leaves-a-lease-its-end", "lease-in-use-is-not-asked-for"},
		inUse: func(ctx context.Context, g *mutantGrant, r driver.Recallable) error {
			if err := r.InUse(ctx); err != nil {
				return err
			}
			return g.fullGrant.Release(ctx)
		},
	},
	{
		name:   "InUse lengthens a lease",
		breaks: []string{"in-use-leaves-a-lease-its-end"},
		inUse: func(ctx context.Context, g *mutantGrant, r driver.Recallable) error {
			_, _ = g.fullGrant.Renew(ctx, 10*g.req.TTL)
			return r.InUse(ctx)
		},
	},
	{
		name:   "InUse is for whatever lease holds",
		breaks: []string{"in-use-of-an-ended-lease-spares-its-successor"},
		inUse: func(ctx context.Context, g *mutantGrant, _ driver.Recallable) error {
			for _, other := range g.d.all.on(g.req.Name) {
				if r, ok := other.(driver.Recallable); ok {
					_ = r.InUse(ctx)
				}
			}
			return driver.ErrLost
		},
	},
}
