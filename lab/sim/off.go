// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// store returns s without the protections that are switched off.
func (o Off) store(s driver.Store) driver.Store { return &credulous{s, o} }

// credulous is a store whose leases are trusted for too long.
type credulous struct {
	driver.Store
	off Off
}

// forEver is longer than any plan.
const forEver = 24 * time.Hour

func (c *credulous) window() driver.Instant {
	if c.off.Deadline {
		return driver.Now().Add(forEver)
	}
	return driver.Now()
}

// Listen implements driver.Store, wrongly: the lease of a grant event counts from now on.
func (c *credulous) Listen(f func(driver.Event)) {
	c.Store.Listen(func(e driver.Event) {
		if e.Kind == driver.Granted {
			e.Grant.Since = c.window()
		}
		f(e)
	})
}

// Ask implements driver.Store, wrongly.
func (c *credulous) Ask(ctx context.Context, r *driver.Request) (driver.Answer, error) {
	ans, err := c.Store.Ask(ctx, r)
	if ans.Granted {
		ans.Since = c.window()
	}
	return ans, err
}

// Renew implements driver.Store, wrongly: without the deadline, a lease ends only when the
// store says so.
func (c *credulous) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	r, err := c.Store.Renew(ctx, l, ttl)
	var lost *driver.LostError
	switch {
	case err == nil, c.off.Deadline && errors.As(err, &lost) && lost.Reason == driver.Expired:
		return driver.Renewal{Since: c.window()}, nil
	}
	return r, err
}
