// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func (g *faultyGrant) Token() uint64         { return g.inner.Token() }
func (g *faultyGrant) Since() driver.Instant { return g.inner.Since() }

func (g *faultyGrant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	var since driver.Instant // written to later if the call is given up
	fate, err := g.f.call(ctx, Renew, g.name, func(ctx context.Context) (err error) {
		since, err = g.inner.Renew(ctx, ttl)
		return err
	})
	if fate != answered || err != nil {
		return 0, err
	}
	return since, nil
}

func (g *faultyGrant) Release(ctx context.Context) error {
	_, err := g.f.call(ctx, Release, g.name, g.inner.Release)
	return err
}

// Downgrade implements driver.Downgrader. A grant that is none says that it
// cannot, as package pawl would.
func (g *faultyGrant) Downgrade(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	d, ok := g.inner.(driver.Downgrader)
	if !ok {
		return nil, fmt.Errorf("drivertest: %T is no driver.Downgrader: %w", g.inner, errors.ErrUnsupported)
	}
	return g.f.acquire(ctx, Downgrade, req, d.Downgrade)
}

// Reserved implements driver.Reserver. A grant that is none has no tokens but its own.
func (g *faultyGrant) Reserved() (tokens uint64, others bool) {
	if r, ok := g.inner.(driver.Reserver); ok {
		return r.Reserved()
	}
	return 0, false
}

// OnWanted implements driver.Recallable. It lets nothing through while cut off, nor later.
func (g *faultyGrant) OnWanted(f func(driver.Recall)) {
	if r, ok := g.inner.(driver.Recallable); ok {
		r.OnWanted(func(how driver.Recall) {
			if !g.f.isCut() {
				f(how)
			}
		})
	}
}

type faultyNotifier struct {
	f     *Faulty
	inner driver.Notifier
}

// OnLost lets nothing through while cut off, nor later.
func (n faultyNotifier) OnLost(f func(error)) {
	n.inner.OnLost(func(err error) {
		if !n.f.isCut() {
			f(err)
		}
	})
}
