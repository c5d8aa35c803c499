// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// apart is the store of a client, with a short delay before each request. Without the delay, a release and
// the request of the next caller of the same client would begin in the same instant, and time out in the same
// instant. Chance would decide which of the two gets the last place at a silent node.
type apart struct {
	driver.Store
	w      *world
	client int
}

// wait sleeps for a time that depends on the seed, the time, the kind of request, and the lease.
func (a *apart) wait(what uint64, lease string) {
	key := uint64(a.w.number(lease))<<16 | what<<8 | uint64(a.client)
	r := rand.New(rand.NewPCG(a.w.plan.Seed^uint64(a.w.now())<<8, key))
	time.Sleep(between(r, 0, 10*time.Microsecond))
}

// Ask implements driver.Store.
func (a *apart) Ask(ctx context.Context, r *driver.Request) (driver.Answer, error) {
	a.wait(1, r.Lease)
	return a.Store.Ask(ctx, r)
}

// Renew implements driver.Store.
func (a *apart) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	a.wait(2, l.Lease)
	return a.Store.Renew(ctx, l, ttl)
}

// End implements driver.Store.
func (a *apart) End(ctx context.Context, l driver.Ref, how driver.End) (found bool, err error) {
	a.wait(3, l.Lease)
	return a.Store.End(ctx, l, how)
}

// Inspect implements driver.Store.
func (a *apart) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	a.wait(4, "")
	return a.Store.Inspect(ctx, name)
}
