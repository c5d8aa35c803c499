// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// waitAs waits in the queue if in is true of the request, and else looks often
// without standing in it.
func waitAs(in func(*driver.Request) bool) func(context.Context, *mutantDriver, *driver.Request) (driver.Grant, error) {
	return func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
		if in(req) {
			return d.grant(req)(d.inner.Acquire(ctx, req))
		}
		return poll(3*time.Millisecond)(ctx, d, req)
	}
}

// breakOthers ends all leases on name but one.
func (d *mutantDriver) breakOthers(ctx context.Context, name, lease string, by *driver.Holder, why string) {
	info, err := d.inner.Inspect(ctx, name)
	if err != nil {
		return
	}
	for _, h := range info.Holders {
		if h.Lease != lease {
			_ = d.inner.Break(ctx, name, h.Lease, by, why)
		}
	}
}

var sharedMutants = []*mutant{
	{
		name:    "shared is exclusive",
		breaks:  []string{"readers-hold-together", "reader-need-not-wait-for-readers", "client-readers-share", "generated-histories-agree-with-the-model"},
		request: func(req *driver.Request) { req.Shared = false },
	},
	{
		name:    "exclusive is shared",
		breaks:  []string{"readers-keep-a-writer-out", "readers-and-writers-never-overlap-under-load", "clients-of-every-kind-never-overlap-under-random-faults"},
		request: func(req *driver.Request) { req.Shared = req.Slots == 0 },
	},
	{
		name: "writers do not stand in the queue",
		breaks: []string{"readers-and-writers-are-served-in-order", "new-readers-do-not-overtake-a-waiting-writer",
			"writer-is-not-starved-by-a-stream-of-readers", "client-writer-is-not-starved-by-readers",
			"client-writer-gets-in-between-a-hundred-readers", "generated-histories-agree-with-the-model"},
		wait: waitAs(func(req *driver.Request) bool { return req.Shared || req.Slots > 0 }),
	},
	{
		name:   "readers do not stand in the queue",
		breaks: []string{"readers-and-writers-are-served-in-order", "inspect-tells-who-waits-to-read"},
		wait:   waitAs(func(req *driver.Request) bool { return !req.Shared }),
	},
	{
		name:   "readers look once a minute",
		breaks: []string{"readers-wake-when-the-writer-expires", "writer-that-gives-up-lets-readers-in", "crashed-writer-in-the-queue-lets-readers-in"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			if req.Shared {
				return poll(time.Minute)(ctx, d, req)
			}
			return d.grant(req)(d.inner.Acquire(ctx, req))
		},
	},
	{
		name:   "writers look once a minute",
		breaks: []string{"writer-gets-the-name-from-the-last-reader", "writer-wakes-when-the-last-reader-expires", "writer-wakes-on-break-of-the-last-reader"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			if !req.Shared {
				return poll(time.Minute)(ctx, d, req)
			}
			return d.grant(req)(d.inner.Acquire(ctx, req))
		},
	},
	{
		name:   "waiting readers are granted one by one",
		breaks: []string{"readers-that-follow-each-other-are-granted-together", "readers-and-writers-are-served-in-order"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			alone := *req
			alone.Shared = false
			g, err := d.inner.Acquire(ctx, &alone)
			return d.grant(req)(g, err)
		},
	},
	{
		name:   "reader that gives up stays in the queue",
		breaks: []string{"reader-that-gives-up-leaves-no-ghost"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			if !req.Shared || ctx.Err() != nil {
				return d.grant(req)(d.inner.Acquire(ctx, req))
			}
			return stray(ctx, d, req, func(driver.Grant) {})
		},
	},
	{
		name:   "readers have one token",
		breaks: []string{"token-grows-with-every-reader", "readers-and-writers-never-overlap-when-waiting"},
		token: func(g *mutantGrant) uint64 {
			if g.req.Shared {
				return 7
			}
			return g.fullGrant.Token()
		},
	},
	{
		name:   "release of one reader ends all",
		breaks: []string{"readers-keep-a-writer-out", "readers-hold-together", "generated-histories-agree-with-the-model"},
		release: func(ctx context.Context, g *mutantGrant) error {
			err := g.fullGrant.Release(ctx)
			if err == nil && g.req.Shared {
				g.d.breakOthers(ctx, g.req.Name, "", g.req.Holder, "")
			}
			return err
		},
	},
	{
		name:   "second release ends another lease",
		breaks: []string{"second-release-of-a-reader-spares-the-others", "second-release-of-a-slot-spares-the-others"},
		release: func(ctx context.Context, g *mutantGrant) error {
			if g.d.count(g.req.Lease, 1) > 1 {
				g.d.breakAny(ctx, g.req.Name, g.req.Holder, "")
			}
			return g.fullGrant.Release(ctx)
		},
	},
	{
		name: "late release ends the others",
		breaks: []string{"expiry-of-one-reader-spares-the-others", "expiry-of-one-slot-spares-the-others",
			"break-of-one-reader-spares-the-others", "break-of-one-slot-spares-the-others"},
		release: func(ctx context.Context, g *mutantGrant) error {
			err := g.fullGrant.Release(ctx)
			if errors.Is(err, driver.ErrLost) {
				g.d.breakOthers(ctx, g.req.Name, "", g.req.Holder, "")
			}
			return err
		},
	},
	{
		name:   "break ends all",
		breaks: []string{"break-of-one-reader-spares-the-others", "break-of-one-slot-spares-the-others", "broken-lease-is-that-of-the-downgrade"},
		breakIt: func(ctx context.Context, d *mutantDriver, name, lease string, by *driver.Holder, why string) error {
			err := d.inner.Break(ctx, name, lease, by, why)
			if err == nil {
				d.breakOthers(ctx, name, lease, by, why)
			}
			return err
		},
	},
	{
		name:   "crash ends all",
		breaks: []string{"crash-of-one-reader-spares-the-others", "crash-of-one-slot-spares-the-others"},
		crash: func(d *mutantDriver) {
			infos, _ := d.inner.List(context.Background(), "")
			for _, info := range infos {
				d.breakOthers(context.Background(), info.Name, "", &driver.Holder{}, "")
			}
		},
	},
	{
		name:   "renewal of one renews all",
		breaks: []string{"renewal-of-one-reader-is-its-own"},
		renew: func(ctx context.Context, g *mutantGrant, ttl time.Duration) (driver.Instant, error) {
			for _, other := range g.d.all.on(g.req.Name) {
				_, _ = other.Renew(ctx, ttl)
			}
			return g.fullGrant.Renew(ctx, ttl)
		},
	},
	{
		name:   "repeated attempt is another hold",
		breaks: []string{"repeated-attempt-of-a-reader-is-one-hold", "repeated-attempt-of-a-slot-takes-one"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			if d.count(req.Lease, 1) > 1 {
				req = newLease(req)
			}
			return d.grant(req)(do(ctx, req))
		},
	},
	{
		name:    "inspect shows one holder",
		breaks:  []string{"inspect-describes-readers", "inspect-describes-slots", "generated-histories-agree-with-the-model"},
		inspect: changeInfo(func(info *driver.Info) { info.Holders = info.Holders[:1] }),
	},
	{
		name:   "inspect hides the kinds",
		breaks: []string{"inspect-describes-readers", "inspect-describes-slots", "inspect-tells-who-waits-to-read"},
		inspect: changeInfo(func(info *driver.Info) {
			for i := range info.Holders {
				info.Holders[i].Shared, info.Holders[i].Slots = false, 0
			}
			for i := range info.Waiters {
				info.Waiters[i].Shared = false
			}
		}),
	},
}

var downgradeMutants = []*mutant{
	{
		name:   "downgrade does nothing",
		breaks: []string{"downgrade-lets-readers-in-and-keeps-writers-out", "downgrade-wakes-readers-up-to-the-first-writer", "client-downgrade-lets-readers-in"},
		lower:  func(_ context.Context, g *mutantGrant, _ *driver.Request) (driver.Grant, error) { return g, nil },
	},
	{
		name:   "downgrade releases",
		breaks: []string{"downgrade-lets-readers-in-and-keeps-writers-out", "generated-histories-agree-with-the-model"},
		lower: func(ctx context.Context, g *mutantGrant, _ *driver.Request) (driver.Grant, error) {
			return g, g.fullGrant.Release(ctx)
		},
	},
	{
		name:   "downgrade lets go in between",
		breaks: []string{"downgrade-wakes-readers-up-to-the-first-writer"},
		lower: func(ctx context.Context, g *mutantGrant, req *driver.Request) (driver.Grant, error) {
			return g.again(ctx, req)
		},
	},
	{
		name:   "downgrade revives",
		breaks: []string{"downgrade-after-the-end-never-revives", "late-downgrade-never-revives"},
		lower: func(ctx context.Context, g *mutantGrant, req *driver.Request) (driver.Grant, error) {
			next, err := g.fullGrant.Downgrade(ctx, req)
			if err != nil && ctx.Err() == nil {
				return g.again(ctx, req)
			}
			return next, err
		},
	},
	{
		name:   "downgrade keeps the token",
		breaks: []string{"downgrade-grants-another-lease"},
		lower: func(ctx context.Context, g *mutantGrant, req *driver.Request) (driver.Grant, error) {
			next, err := g.fullGrant.Downgrade(ctx, req)
			if err != nil {
				return nil, err
			}
			return sameToken{next, g.Token()}, nil
		},
	},
	{
		name:   "downgraded lease lasts",
		breaks: []string{"downgrade-begins-a-ttl"},
		lower: func(ctx context.Context, g *mutantGrant, req *driver.Request) (driver.Grant, error) {
			longer := *req
			longer.TTL = 100 * time.Hour
			return g.fullGrant.Downgrade(ctx, &longer)
		},
	},
}

type sameToken struct {
	driver.Grant
	token uint64
}

func (g sameToken) Token() uint64 { return g.token }

// again ends g and asks for req.
func (g *mutantGrant) again(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	_ = g.fullGrant.Release(ctx)
	return g.d.inner.TryAcquire(ctx, req)
}

var slotsMutants = []*mutant{
	{
		name:    "one slot too many",
		breaks:  []string{"slots-are-held-by-as-many-as-there-are", "slots-are-never-exceeded-under-load", "slots-are-never-exceeded-when-waiting"},
		request: changeSlots(func(n int) int { return n + 1 }),
	},
	{
		name:    "one slot too few",
		breaks:  []string{"slots-are-held-by-as-many-as-there-are", "freed-slot-goes-to-a-waiter", "client-slots-are-shared-out"},
		request: changeSlots(func(n int) int { return max(1, n-1) }),
	},
	{
		name:    "slots of any number",
		breaks:  []string{"slots-of-another-number-are-refused", "one-slot-is-held-by-one"},
		request: changeSlots(func(int) int { return 3 }),
	},
	{
		name:   "slots of another number are only held",
		breaks: []string{"slots-of-another-number-are-refused", "client-slots-are-shared-out", "generated-histories-agree-with-the-model"},
		acquire: func(ctx context.Context, d *mutantDriver, req *driver.Request, do acquireFunc) (driver.Grant, error) {
			g, err := d.grant(req)(do(ctx, req))
			if slots := (*driver.SlotsError)(nil); errors.As(err, &slots) {
				err = driver.ErrHeld
			}
			return g, err
		},
	},
	{
		name:   "slots are shared leases",
		breaks: []string{"slots-are-held-by-as-many-as-there-are", "slots-and-shared-keep-each-other-out"},
		request: func(req *driver.Request) {
			req.Shared, req.Slots = req.Shared || req.Slots > 0, 0
		},
	},
	{
		name:   "exclusive takes a slot",
		breaks: []string{"slots-and-exclusive-keep-each-other-out", "slots-are-never-exceeded-under-load"},
		request: func(req *driver.Request) {
			if !req.Shared && req.Slots == 0 {
				req.Slots = 3
			}
		},
	},
	{
		name:   "waiters for slots do not stand in the queue",
		breaks: []string{"slots-are-given-in-order"},
		wait:   waitAs(func(req *driver.Request) bool { return req.Slots == 0 }),
	},
	{
		name:   "only who waits for a slot stands in the queue",
		breaks: []string{"new-slots-do-not-overtake-who-waits"},
		wait:   waitAs(func(req *driver.Request) bool { return req.Slots > 0 }),
	},
	{
		name: "waiters for slots look once a minute",
		breaks: []string{"freed-slot-goes-to-a-waiter", "waiter-wakes-when-a-slot-expires",
			"waiter-wakes-when-a-holder-of-a-slot-crashes", "waiter-wakes-on-break-of-a-slot"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			if req.Slots > 0 {
				return poll(time.Minute)(ctx, d, req)
			}
			return d.grant(req)(d.inner.Acquire(ctx, req))
		},
	},
	{
		name:   "slots have one token",
		breaks: []string{"token-grows-with-every-slot", "slots-are-never-exceeded-when-waiting"},
		token: func(g *mutantGrant) uint64 {
			if g.req.Slots > 0 {
				return 7
			}
			return g.fullGrant.Token()
		},
	},
	{
		name:   "who gives up a slot lets one in too many",
		breaks: []string{"slots-are-never-exceeded-when-waiters-give-up"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			g, err := d.inner.Acquire(ctx, req)
			if err != nil && req.Slots > 0 {
				d.breakAny(context.Background(), req.Name, req.Holder, "")
			}
			return d.grant(req)(g, err)
		},
	},
	{
		name:   "who gives up reading ends a lease",
		breaks: []string{"readers-and-writers-never-overlap-when-waiters-give-up"},
		wait: func(ctx context.Context, d *mutantDriver, req *driver.Request) (driver.Grant, error) {
			g, err := d.inner.Acquire(ctx, req)
			if err != nil && req.Shared {
				d.breakAny(context.Background(), req.Name, req.Holder, "")
			}
			return d.grant(req)(g, err)
		},
	},
}

func changeSlots(change func(int) int) func(*driver.Request) {
	return func(req *driver.Request) {
		if req.Slots > 0 {
			req.Slots = change(req.Slots)
		}
	}
}
