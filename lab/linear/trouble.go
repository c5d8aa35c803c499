// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// breakLinks cuts off one client at a time, for longer than the client may trust its leases.
// Meanwhile another client's requests and answers are lost or late.
func (r *run) breakLinks(ctx context.Context) {
	for i := range 2 * clients {
		s, link := r.stores[i%clients], r.links[i%clients]
		other := r.links[(i+1)%clients]
		for range 10 {
			other.Add(drivertest.Rule{
				Effect: []drivertest.Effect{drivertest.FailBefore, drivertest.FailAfter, drivertest.SlowBefore, drivertest.SlowAfter}[rand.IntN(4)],
				After:  rand.IntN(40), Count: 1 + rand.IntN(3), Delay: rand.N(r.ttl / 3),
			})
		}
		heal := link.Heal
		if r.service.Cut != nil && i >= clients {
			r.service.Cut(r.t, s)
			heal = func() { r.service.Heal(r.t, s) }
		} else {
			link.Cut()
		}
		pause(ctx, r.ttl*5/4)
		heal()
		other.Clear()
		pause(ctx, r.ttl/4)
	}
}

// restart restarts the store once, in the middle of the run.
func (r *run) restart(ctx context.Context) {
	pause(ctx, r.ttl)
	r.restarted = true
	r.service.Restart(r.t)
	pause(ctx, r.h.Recovery+2*r.ttl)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
