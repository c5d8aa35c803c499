// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// work makes calls on a name until the history has enough calls.
func (r *run) work(ctx context.Context, h *history, worker int, c *pawl.Client) {
	for ctx.Err() == nil && h.begin() {
		began := time.Now()
		g := r.get(ctx, h, worker, c)
		took := min(time.Since(began), 20*time.Millisecond)
		if g != nil {
			if g = r.hold(ctx, h, g, took); g != nil {
				r.give(h, g)
			}
		}
		switch {
		case !r.calm:
			time.Sleep(rand.N(r.ttl / 8)) // spread the calls over the time of the faults
		case !h.waited:
			time.Sleep(rand.N(time.Millisecond + 6*took)) // so that some calls are alone
		}
		if c.Guarantees() != pawl.Guarantees(r.sure) {
			r.t.Errorf("the guarantees have changed to %+v", c.Guarantees())
		}
		if h.broken && rand.IntN(8) == 0 && r.inspector && h.begin() {
			r.breakOne(ctx, h, worker, c)
		}
	}
}

// get tries to acquire the name, or waits for it, or waits and gives up.
func (r *run) get(ctx context.Context, h *history, worker int, c *pawl.Client) *held {
	k := h.kinds[rand.IntN(len(h.kinds))]
	var opts []pawl.Option
	switch {
	case k == shared:
		opts = append(opts, pawl.Shared())
	case k > 0:
		opts = append(opts, pawl.Slots(int(k)))
	}
	if h.kept && k == exclusive {
		opts = append(opts, pawl.KeepIdle(rand.N(r.ttl)))
	}
	if h.broken {
		// A client passes a lease on without the store, under the same id, and a break ends
		// whichever lease has the id then. It does not pass on leases with different purposes, so
		// give each its own.
		opts = append(opts, pawl.Why(fmt.Sprint(r.clock.now())))
	}
	acquire, giveUp := c.Acquire, ctx
	switch n := rand.IntN(10); {
	case n < 4 || !h.waited:
		acquire = c.TryAcquire
	case n < 6:
		var cancel context.CancelFunc
		giveUp, cancel = context.WithTimeout(ctx, rand.N(5*time.Millisecond))
		defer cancel()
	}
	at := span{call: r.clock.now()}
	l, err := acquire(giveUp, h.name, opts...)
	at.ret = r.clock.now()
	r.calls.Add(1)
	switch {
	case err == nil, refusal(err), giveUp.Err() != nil:
	case slow(err), !r.calm: // with faults, any error may come
		r.failed.Add(1)
		pause(ctx, r.ttl/8)
	default:
		r.t.Errorf("%q: an attempt has failed: %v", h.name, err)
	}
	return h.attempt(at, worker, k, l, err)
}

func refusal(err error) bool {
	var slots *pawl.SlotsError
	return errors.Is(err, pawl.ErrHeld) || errors.As(err, &slots)
}

// slow reports whether err can happen without faults on a busy machine: the answer came too late,
// or the lease had ended when it came.
func slow(err error) bool {
	return errors.Is(err, pawl.ErrUnavailable) || errors.Is(err, pawl.ErrUncertain) || errors.Is(err, pawl.ErrLost)
}

// hold holds a lease for about as long as a request takes, and looks at it again and
// again. It returns the lease that it has in the end, or nil.
func (r *run) hold(ctx context.Context, h *history, g *held, took time.Duration) *held {
	until := time.Now().Add(rand.N(time.Millisecond + took))
	if !r.calm && rand.IntN(3) == 0 {
		until = time.Now().Add(rand.N(3 * r.ttl / 2)) // longer than a client that is cut off may trust the lease
	}
	first := rand.IntN(2) == 0
	if first {
		g = r.change(ctx, h, g)
	}
	for g != nil && r.look(g) && ctx.Err() == nil && time.Now().Before(until) {
		time.Sleep(min(r.ttl/200, time.Until(until)))
	}
	if !first {
		g = r.change(ctx, h, g)
	}
	return g
}

// look reports whether the holder may still trust the lease.
func (r *run) look(g *held) bool {
	at := span{call: r.clock.now()}
	if err := g.Err(); err != nil {
		return false
	}
	at.ret = r.clock.now()
	g.seen = at
	return true
}

// change sometimes extends or downgrades a lease. It returns the lease that is held afterwards, or nil.
func (r *run) change(ctx context.Context, h *history, g *held) *held {
	switch {
	case rand.IntN(4) == 0 && h.begin():
		r.extend(ctx, h, g)
	case rand.IntN(2) == 0 && g.kind == exclusive && r.downgrades && h.begin():
		return r.downgrade(ctx, h, g)
	}
	return g
}

func (r *run) extend(ctx context.Context, h *history, g *held) {
	at := span{call: r.clock.now()}
	err := g.Extend(ctx, r.ttl)
	at.ret = r.clock.now()
	r.calls.Add(1)
	if err != nil {
		return // if the lease is lost, Release says so
	}
	if r.sure.Expiry { // without expiry, Extend does not ask the store
		h.add(at, operation{do: trusted, lease: g.n, worker: g.worker})
	}
}

// downgrade downgrades g and returns the shared lease. If that fails, it releases g and returns nil: both leases
// have ended, or are about to end.
func (r *run) downgrade(ctx context.Context, h *history, g *held) *held {
	deadline := g.Deadline()
	at := span{call: r.clock.now()}
	l, err := g.Downgrade(ctx)
	at.ret = r.clock.now()
	r.calls.Add(1)
	if err == nil {
		return h.downgraded(at, g, l)
	}
	if rel := g.Release(context.Background()); rel != nil || !errors.Is(err, pawl.ErrUncertain) {
		r.ended(h, g, at, deadline, rel)
	} else { // the store may have had either lease, or none
		h.mu.Lock()
		g.over = at.ret
		h.mu.Unlock()
		h.add(at, operation{do: mayEnd, lease: g.n, worker: g.worker})
	}
	return nil
}

// give releases a lease. The store may still hold a lost lease for a while.
func (r *run) give(h *history, g *held) {
	deadline := g.Deadline()
	at := span{call: r.clock.now()}
	err := g.Release(context.Background())
	at.ret = r.clock.now()
	r.calls.Add(1)
	r.ended(h, g, at, deadline, err)
}

// ended notes the result err of a release.
func (r *run) ended(h *history, g *held, at span, deadline time.Time, err error) {
	var lost *pawl.LostError
	why := driver.Gone
	if errors.As(err, &lost) {
		why = lost.Reason
	}
	ended := errors.Is(err, pawl.ErrLost)
	h.mu.Lock()
	g.over = at.ret
	g.lost = ended && why != driver.Broken
	g.early = g.lost && why == driver.Gone && time.Now().Before(deadline)
	h.mu.Unlock()
	switch {
	case err == nil:
		h.add(at, operation{do: released, lease: g.n, worker: g.worker})
	case !ended:
		h.add(at, operation{do: mayEnd, lease: g.n, worker: g.worker})
	}
}

// breakOne breaks one of the six leases that were granted last, which may have ended.
func (r *run) breakOne(ctx context.Context, h *history, worker int, c *pawl.Client) {
	h.mu.Lock()
	if len(h.known) == 0 {
		h.mu.Unlock()
		return
	}
	g := h.known[len(h.known)-1-rand.IntN(min(6, len(h.known)))]
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.ttl)
	defer cancel()
	at := span{call: r.clock.now()}
	err := c.Break(ctx, h.name, g.ID(), "a test")
	at.ret = r.clock.now()
	r.calls.Add(1)
	o := operation{do: broke, lease: g.n, worker: worker}
	switch {
	case errors.Is(err, pawl.ErrReleased), errors.Is(err, pawl.ErrHeld):
		o.do = missed
	case err != nil, !r.sure.Expiry: // without expiry, Break only asks the holder, which may have released by itself
		o.do = mayEnd
	}
	h.add(at, o)
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.do == missed && r.calm {
		g.misses = append(g.misses, at)
		return
	}
	// The lease has been broken, or may have been: the client repeats a request whose answer was lost, and then finds
	// the lease ended.
	g.breaks = append(g.breaks, at)
}
