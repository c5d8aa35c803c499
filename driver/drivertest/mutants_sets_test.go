// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
)

// eachOf asks for the names one after the other, changed by change, and gives
// nothing back if that fails.
func eachOf(acquire func(*mutantDriver) acquireFunc, change func(i int, req *driver.Request)) func(context.Context, *mutantDriver, []*driver.Request) ([]driver.Grant, error) {
	return func(ctx context.Context, d *mutantDriver, reqs []*driver.Request) ([]driver.Grant, error) {
		var grants []driver.Grant
		for i, req := range reqs {
			changed := *req
			change(i, &changed)
			g, err := d.grant(&changed)(acquire(d)(ctx, &changed))
			if err != nil {
				return nil, err
			}
			grants = append(grants, g)
		}
		return grants, nil
	}
}

func trying(d *mutantDriver) acquireFunc { return d.inner.TryAcquire }

var setMutants = []*mutant{
	{
		name:   "of a set that is refused a part is kept",
		breaks: []string{"set-is-granted-whole-or-not-at-all"},
		set:    eachOf(trying, func(int, *driver.Request) {}),
	},
	{
		name:   "a set that is asked for again is an error",
		breaks: []string{"repeated-attempt-for-a-set-is-harmless"},
		set: func(ctx context.Context, d *mutantDriver, reqs []*driver.Request) ([]driver.Grant, error) {
			if d.count(reqs[0].Lease, 1) > 1 {
				return nil, errors.New("asked for before")
			}
			return d.inner.(driver.Sets).TryAcquireAll(ctx, reqs)
		},
	},
	{
		name:   "sets wait",
		breaks: []string{"set-does-not-overtake-who-waits"},
		set:    eachOf(func(d *mutantDriver) acquireFunc { return d.inner.Acquire }, func(int, *driver.Request) {}),
	},
	{
		name:   "sets are exclusive",
		breaks: []string{"set-of-leases-of-every-kind"},
		set:    eachOf(trying, func(_ int, req *driver.Request) { req.Shared, req.Slots = false, 0 }),
	},
	{
		name:   "of a set the first name is locked",
		breaks: []string{"sets-never-overlap-under-load", "set-is-granted-whole-or-not-at-all"},
		set: eachOf(trying, func(i int, req *driver.Request) {
			if i > 0 {
				req.Name += req.Lease
			}
		}),
	},
}
