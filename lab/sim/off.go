// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// driver returns d without the protections that are switched off.
func (o Off) driver(d *redlock.Driver) driver.Driver { return &credulous{d, o} }

// credulous is a driver whose leases are trusted for too long.
type credulous struct {
	driver.Queuer
	off Off
}

func (c *credulous) grant(g driver.Grant, err error) (driver.Grant, error) {
	if err != nil {
		return g, err
	}
	return &credulousGrant{g, c.off}, nil
}

// TryAcquire implements driver.Driver.
func (c *credulous) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	return c.grant(c.Queuer.TryAcquire(ctx, req))
}

// Acquire implements driver.Queuer.
func (c *credulous) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	return c.grant(c.Queuer.Acquire(ctx, req))
}

type credulousGrant struct {
	driver.Grant
	off Off
}

// forEver is longer than any plan.
const forEver = 24 * time.Hour

func (g *credulousGrant) window() driver.Instant {
	if g.off.Deadline {
		return driver.Now().Add(forEver)
	}
	return driver.Now()
}

// Since implements driver.Grant, wrongly.
func (g *credulousGrant) Since() driver.Instant { return g.window() }

// Renew implements driver.Grant, wrongly: without the deadline, only a store that
// says so ends a lease.
func (g *credulousGrant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	_, err := g.Grant.Renew(ctx, ttl)
	var lost *driver.LostError
	switch {
	case err == nil:
		return g.window(), nil
	case g.off.Deadline && errors.As(err, &lost) && lost.Reason == driver.Expired:
		return g.window(), nil
	}
	return 0, err
}
