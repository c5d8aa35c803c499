// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// poll waits for a name without a queue, and looks every d.
func poll(d time.Duration) func(context.Context, *mutantDriver, *driver.Request) (driver.Grant, error) {
	return func(ctx context.Context, m *mutantDriver, req *driver.Request) (driver.Grant, error) {
		for {
			g, err := m.grant(req)(m.inner.TryAcquire(ctx, req))
			if !errors.Is(err, driver.ErrHeld) {
				return g, err
			}
			if !sleep(ctx, d) {
				return nil, ctx.Err()
			}
		}
	}
}

// stray waits in the queue even after ctx has ended, and calls after with the
// grant that nobody waits for.
func stray(ctx context.Context, d *mutantDriver, req *driver.Request, after func(driver.Grant)) (driver.Grant, error) {
	type result struct {
		g   driver.Grant
		err error
	}
	got := make(chan result, 1)
	d.ghosts.Go(func() {
		g, err := d.inner.Acquire(d.ctx, req)
		got <- result{g, err}
	})
	select {
	case r := <-got:
		return d.grant(req)(r.g, r.err)
	case <-ctx.Done():
		d.ghosts.Go(func() {
			if r := <-got; r.g != nil {
				after(r.g)
			}
		})
		return nil, ctx.Err()
	}
}

var queueMutants = []*mutant{
	{
		name: "no queue",
		breaks: []string{"waiters-are-served-in-order", "newcomer-does-not-overtake", "cancelled-waiters-leave-the-order",
			"inspect-describes-the-queue", "generated-histories-agree-with-the-model"},
		wait: poll(3 * time.Millisecond),
	},
	{
		name: "waiters look once a minute",
		breaks: []string{"waiter-gets-the-name-on-release", "waiter-wakes-on-expiry", "waiter-wakes-on-break",
			"crashed-waiter-is-passed-over"},
		wait: poll(time.Minute),
	},
	{
		name:   "waiters wait before they ask",
		breaks: []string{"waiter-of-a-free-name-need-not-wait"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			if !sleep(ctx, time.Second) {
				return nil, ctx.Err()
			}
			return d.grant(req)(d.inner.Acquire(ctx, req))
		},
	},
	{
		name: "cancelled waiter stays in the queue",
		breaks: []string{"cancelled-waiter-leaves-no-ghost", "cancelled-waiters-leave-the-order",
			"cancelled-client-call-leaves-no-ghost", "generated-histories-agree-with-the-model"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return stray(ctx, d, req, func(driver.Grant) {})
		},
	},
	{
		name:   "grant in the instant of cancel is kept",
		breaks: []string{"grant-in-the-instant-of-cancel-is-put-back", "client-lease-in-the-instant-of-cancel-is-put-back"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			inner, cancel := context.WithCancel(d.ctx)
			defer cancel()
			type result struct {
				g   driver.Grant
				err error
			}
			got := make(chan result, 1)
			d.ghosts.Go(func() {
				g, err := d.inner.Acquire(inner, req)
				got <- result{g, err}
			})
			select {
			case <-ctx.Done():
				time.Sleep(2 * time.Millisecond) // on its way to the store
				cancel()                         // a grant that was sent before is lost
				return nil, ctx.Err()
			case r := <-got:
				return d.grant(req)(r.g, r.err)
			}
		},
	},
	{
		name:   "cancelled waiter takes its time",
		breaks: []string{"cancelled-waiter-of-a-held-name-returns-at-once"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			g, err := d.grant(req)(d.inner.Acquire(ctx, req))
			if err != nil {
				time.Sleep(time.Second)
			}
			return g, err
		},
	},
	{
		name:   "ttl of a waiter begins with the waiting",
		breaks: []string{"grant-to-a-waiter-has-its-full-ttl"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			began := driver.Now()
			g, err := d.inner.Acquire(ctx, req)
			if err == nil {
				time.AfterFunc(req.TTL-driver.Now().Sub(began), func() { g.Release(context.Background()) })
			}
			return d.grant(req)(g, err)
		},
	},
	{
		name:   "waiters do not exclude each other",
		breaks: []string{"holders-never-overlap-when-waiting", "holders-never-overlap-when-waiters-give-up"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			other := *req
			other.Name += " of " + req.Lease
			return d.grant(req)(d.inner.Acquire(ctx, &other))
		},
	},
}

var inspectMutants = []*mutant{
	{
		name:   "held by somebody unknown",
		breaks: []string{"held-error-names-the-holder"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			g, err := d.grant(req)(do(ctx, req))
			if errors.Is(err, driver.ErrHeld) {
				err = driver.ErrHeld
			}
			return g, err
		},
	},
	{
		name:    "inspect confuses why",
		breaks:  []string{"inspect-describes-the-holder"},
		inspect: changeInfo(func(info *driver.Info) { info.Holders[0].Why = "" }),
	},
	{
		name:    "inspect hides the queue",
		breaks:  []string{"inspect-describes-the-queue"},
		inspect: changeInfo(func(info *driver.Info) { info.Waiters = nil }),
	},
	{
		name:   "inspect hides what waiters hold",
		breaks: []string{"inspect-describes-the-queue"},
		inspect: changeInfo(func(info *driver.Info) {
			for i := range info.Waiters {
				info.Waiters[i].Holds = nil
			}
		}),
	},
	{
		name:   "inspect of a free name fails",
		breaks: []string{"inspect-describes-the-holder", "inspect-of-an-expired-lease-shows-nobody"},
		inspect: func(info *driver.Info, err error) (*driver.Info, error) {
			if err == nil && len(info.Holders) == 0 {
				return nil, errors.New("no such name")
			}
			return info, err
		},
	},
	{
		name:   "list does not look at the prefix",
		breaks: []string{"list-is-sorted-and-by-prefix"},
		list:   func(all []*driver.Info) []*driver.Info { return all },
	},
	{
		name:   "break does not look at the id",
		breaks: []string{"break-with-a-wrong-id-breaks-nothing", "break-spares-the-successor", "generated-histories-agree-with-the-model"},
		breakIt: func(ctx context.Context, d *mutantDriver, name, _ string, by *driver.Holder, why string) error {
			return d.breakAny(ctx, name, by, why)
		},
	},
	{
		name:   "break does nothing",
		breaks: []string{"break-ends-the-lease", "waiter-wakes-on-break", "broken-lease-cannot-be-renewed"},
		breakIt: func(context.Context, *mutantDriver, string, string, *driver.Holder, string) error {
			return nil
		},
	},
	{
		name:   "nobody is told",
		breaks: []string{"broken-holder-learns-who-and-why"},
		onLost: func(*mutantGrant, func(error)) {},
	},
	{
		name:   "nobody is told why",
		breaks: []string{"broken-holder-learns-who-and-why", "client-of-a-broken-lease-learns-who-and-why"},
		onLost: func(g *mutantGrant, f func(error)) { g.fullGrant.OnLost(func(error) { f(driver.ErrLost) }) },
	},
	{
		name:   "told twice",
		breaks: []string{"loss-is-told-at-most-once"},
		onLost: func(g *mutantGrant, f func(error)) { g.fullGrant.OnLost(func(err error) { f(err); f(err) }) },
	},
	{
		name:   "told after release",
		breaks: []string{"no-loss-is-told-after-release"},
		onLost: func(g *mutantGrant, f func(error)) { g.told = f },
		release: func(ctx context.Context, g *mutantGrant) error {
			err := g.fullGrant.Release(ctx)
			if g.told != nil && err == nil && g.d.count(g.req.Lease, 1) == 1 {
				g.d.ghosts.Go(func() { g.told(driver.ErrLost) })
			}
			return err
		},
	},
}

// changeInfo changes the description of a name that is held.
func changeInfo(change func(*driver.Info)) func(*driver.Info, error) (*driver.Info, error) {
	return func(info *driver.Info, err error) (*driver.Info, error) {
		if err == nil && len(info.Holders) > 0 {
			change(info)
		}
		return info, err
	}
}
