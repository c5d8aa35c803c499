// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/nested"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
)

// acquire waits for the lease as long as the user allows, or until a signal.
func (r *runner) acquire() (*pawl.Lease, error) {
	r.waiting.Store(true)
	defer r.waiting.Store(false)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := r.within(ctx); err != nil {
		return nil, err
	}
	type result struct {
		lease *pawl.Lease
		err   error
	}
	results := make(chan result, 1)
	go func() {
		lease, err := r.ask(ctx)
		results <- result{lease, err}
	}()
	next := time.NewTimer(waiting.Patience)
	defer next.Stop()
	notices := make(chan waiting.Notice, 1)
	look := func(tell bool) { // in a goroutine: the store may be slow
		n := r.look(ctx)
		n.Tell = tell
		notices <- n
	}
	watch := waiting.Outage{Servers: r.store.Guarantees().Expiry}
	var news <-chan struct{}
	for {
		select {
		case res := <-results:
			if res.err != nil {
				return nil, r.refused(res.err)
			}
			return res.lease, nil
		case sig := <-r.signals:
			end := r.signalled(sig)
			if end == nil {
				continue
			}
			cancel()
			// The lease may have been granted in this very moment.
			if res := <-results; res.lease != nil {
				_ = res.lease.Release(ctx)
			}
			return nil, end
		case <-next.C:
			first := news == nil
			if first && len(r.news) > 0 {
				<-r.news // is told with the rest
			}
			news = r.news
			go look(first)
		case <-news:
			go look(true)
		case n := <-notices:
			r.known = r.known || n.Info != nil
			if watch.Told(&n, time.Now()) && !n.Mine(r.pid()) {
				r.announce(n)
			}
			if watch.Servers {
				next.Reset(n.Pace())
			}
		}
	}
}

// within returns an error if we are part of a command that runs under the very
// lock, which would never end.
func (r *runner) within(ctx context.Context) error {
	if len(nested.Held()) == 0 {
		return nil
	}
	return nested.Surrounding(r.look(ctx).Info, "pawl "+r.verb())
}

func (r *runner) ask(ctx context.Context) (*pawl.Lease, error) {
	opts := []pawl.Option{pawl.Why(r.why), pawl.MaxHold(r.maxHold)}
	for _, h := range nested.Held() {
		opts = append(opts, pawl.Holding(h.Name, h.Lease))
	}
	if r.inDeadlock {
		opts = append(opts, pawl.WaitInDeadlock())
	}
	if r.shared {
		opts = append(opts, pawl.Shared())
	}
	if r.apart {
		opts = append(opts, pawl.NoRenew()) // so that the store gives it the whole TTL
	}
	if r.slots > 0 {
		opts = append(opts, pawl.Slots(r.slots))
	}
	if r.wait == 0 {
		return r.store.TryAcquire(ctx, r.name, opts...)
	}
	if r.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.wait)
		defer cancel()
	}
	for {
		lease, err := r.store.Acquire(ctx, r.name, opts...)
		if err != nil || r.whole(ctx, lease) {
			return lease, err
		}
		_ = lease.Release(ctx) // it cannot be renewed: wait again, or hear why not
	}
}

// whole sees to it that a lease lasts long enough for the command to be stopped in
// order. One that was handed over just now may end in a second, unless it is renewed.
func (r *runner) whole(ctx context.Context, lease *pawl.Lease) bool {
	d := lease.Deadline()
	return d.IsZero() || time.Until(d) > r.ttl/2 || lease.Extend(ctx, r.ttl) == nil
}

// refused returns the failure for an error of acquiring.
func (r *runner) refused(err error) error {
	show := "see: " + r.store.Show(r.name)
	var held *pawl.HeldError
	var closed *pawl.ClosedError
	var dead *pawl.DeadlockError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return r.inVain(err)
	case errors.As(err, &closed):
		return r.closedFailure(closed.Left, "")
	case errors.As(err, &dead):
		return exit.Fail(exit.Busy, fmt.Sprintf("%q: %v", r.name, dead), "take these locks in one order everywhere, or wait all the same with --wait-in-deadlock")
	case errors.As(err, &held):
		if !r.turns {
			show = "wait for it with --wait 5m, or " + show
		}
		return exit.Fail(exit.Busy, fmt.Sprintf("%q: %s", r.name, display.HeldBy(held.Info)), show)
	}
	return exit.OfStore(err, r.store.URL.String())
}

// inVain returns the failure when the time to wait is over.
func (r *runner) inVain(err error) error {
	waited := fmt.Sprintf("waited %v in vain; ", r.wait)
	if r.quarantine() > 0 {
		return r.closedFailure(r.quarantine(), waited)
	}
	n := r.look(context.Background())
	if n.Failed != nil {
		return exit.Fail(exit.Unavailable, fmt.Sprintf("%q: %s%s", r.name, waited, n.Silence(r.store.URL)), "check it, and the network on the way")
	}
	text := fmt.Sprintf("%q: %s", r.name, strings.TrimSuffix(waited, "; "))
	if held := new(pawl.HeldError); errors.As(err, &held) {
		text += "; " + display.HeldBy(held.Info)
	} else if n.Info != nil && len(n.Info.Holders) > 0 {
		text += "; " + display.HeldBy(n.Info)
	}
	return exit.Fail(exit.Busy, text, "wait longer, or see: "+r.store.Show(r.name))
}

func (r *runner) closedFailure(left time.Duration, before string) error {
	return exit.Fail(exit.Unavailable, fmt.Sprintf("%q: %s%s, as leases that it has forgotten may last so long", r.name, before, waiting.ClosedFor(left)),
		fmt.Sprintf("wait with --wait %v, or, if nobody can hold a lock, see: pawl bless --help", (left+time.Minute-1).Truncate(time.Minute)))
}

func (r *runner) look(ctx context.Context) waiting.Notice {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	n := waiting.Notice{Ahead: -1, Quarantine: r.quarantine(), Began: time.Now()}
	info, err := r.store.Inspect(ctx, r.name)
	switch {
	case err == nil:
		n.Info = info
		if r.store.Guarantees().FIFO { // else the queue says nothing of the order
			n.Ahead = waiting.Place(info, r.pid())
		}
	case errors.Is(err, pawl.ErrUnavailable), errors.Is(err, pawl.ErrDenied), errors.Is(err, context.DeadlineExceeded):
		n.Failed = err
	}
	return n
}

func (r *runner) announce(n waiting.Notice) {
	e := event{Event: "waiting", Closed: n.Quarantine.Round(time.Millisecond).Seconds()}
	if n.Ahead >= 0 {
		e.Ahead = &n.Ahead
	}
	if n.Info != nil {
		e.Holders = report.LockOf(n.Info).Holders
	}
	if n.Failed != nil {
		e.Unanswered, e.Error = n.Away.Round(time.Millisecond).Seconds(), n.Failed.Error()
	}
	r.tell(e)
	if !r.quiet && !r.json {
		r.say(n.Line(r.name, r.store.URL))
	}
}
