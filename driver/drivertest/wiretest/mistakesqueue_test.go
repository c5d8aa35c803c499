// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"

	"github.com/pawl-go/pawl/driver"
)

// lookOnly ends a lease, and tells the first waiter to look instead of granting it the name.
func lookOnly(w *badWire, l driver.Ref, how driver.End) (bool, error) {
	info, ctx := w.info(l.Name), context.Background()
	for _, waiter := range info.Waiters {
		_, _ = w.Store.End(ctx, driver.Ref{Name: l.Name, Lease: waiter.Lease}, driver.End{})
	}
	found, err := w.Store.End(ctx, l, how)
	if len(info.Waiters) > 0 {
		first := info.Waiters[0].Lease
		w.s.of[first].send(driver.Event{Kind: driver.Look, Name: l.Name, Lease: first})
	}
	return found, err
}

// endQuietly ends a lease without events.
func endQuietly(w *badWire, l driver.Ref, how driver.End) (found bool, err error) {
	w.s.quietly(func() { found, err = w.Store.End(context.Background(), l, how) })
	return found, err
}

func whoWaits(w *badWire, l driver.Ref, _ driver.End) bool { return w.waits(l.Name, l.Lease) }

var queueMistakes = []*mistake{
	{name: "who would wait has to", found: []string{"a-free-name-is-granted-to-who-would-wait"},
		ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			if r.Queue && w.s.count(r.Lease) == 1 {
				return driver.Answer{Rank: 1}, nil
			}
			return w.Store.Ask(ctx, r)
		}},
	{name: "a waiter that asks again goes to the end", found: []string{"a-waiter-that-asks-again-keeps-its-place"},
		ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			if r.Queue && w.waits(r.Name, r.Lease) {
				_, _ = w.Store.End(ctx, driver.Ref{Name: r.Name, Lease: r.Lease}, driver.End{})
			}
			return w.Store.Ask(ctx, r)
		}},
	{name: "a name is free between holder and waiter", end: lookOnly, found: []string{"a-newcomer-does-not-overtake"}},
	{name: "nobody was waiting", found: []string{"waiters-have-their-turn-in-order"}, asked: answered(func(a *driver.Answer) { a.Waited = false }, nil)},
	{name: "all are first", found: []string{"waiters-have-their-turn-in-order"}, asked: answered(nil, func(a *driver.Answer) { a.Rank = 0 })},
	{name: "every request is for the queue", found: []string{"a-request-that-is-not-for-the-queue-never-joins"},
		ask: changed(func(r *driver.Request) { r.Queue = true })},
	{name: "no request is for the queue", found: []string{"the-first-waiter-hears-of-a-release", "waiters-have-their-turn-in-order"},
		ask: changed(func(r *driver.Request) { r.Queue = false })},
	{name: "a waiter that has left is still there", found: []string{"a-waiter-that-was-ended-leaves-the-queue", "a-waiter-hears-that-the-one-before-it-has-left"},
		end: endsWrong(whoWaits, endNone(true))},
	{name: "the TTL of a waiter begins when it comes", found: []string{"a-hand-over-begins-a-ttl"},
		asked: func(w *badWire, r *driver.Request, a *driver.Answer) {
			if first, ok := w.s.first[r.Lease]; ok {
				a.Since = first.Since
			} else {
				w.s.first[r.Lease] = driver.Answer{Since: driver.Now()}
			}
		}},
	{name: "a store without a queue has one", caps: func(c *driver.Caps) { c.Queue = false }, found: []string{"a-name-without-a-queue-is-nobodys-to-wait-for"}},
}

var eventMistakes = []*mistake{
	{name: "no event says that it is a waiter's turn", event: dropped(driver.Granted, driver.Look), found: []string{
		"the-first-waiter-hears-of-a-release", "the-first-waiter-hears-of-a-break", "a-waiter-hears-that-the-one-before-it-has-left", "a-freed-slot-goes-to-the-first-waiter"}},
	{name: "a break wakes nobody", found: []string{"the-first-waiter-hears-of-a-break"},
		breaks: func(w *badWire, name, lease string, by *driver.Holder, why string) (err error) {
			w.s.quietly(func() { err = w.Store.Break(context.Background(), name, lease, by, why) })
			return err
		}},
	{name: "Free is not known", found: []string{"the-first-waiter-has-its-turn-after-expiry"},
		asked: answered(nil, func(a *driver.Answer) { a.Free = -1 })},
	{name: "an end by the id wakes nobody", found: []string{"the-first-waiter-hears-of-the-end-of-a-lease-by-its-id"},
		end: endsWrong(func(_ *badWire, l driver.Ref, _ driver.End) bool { return l.Handle == nil }, endQuietly)},
	{name: "a waiter that leaves wakes nobody", found: []string{"a-waiter-hears-that-the-one-before-it-has-left"},
		end: endsWrong(whoWaits, endQuietly)},
	{name: "an event has another token than the lease", found: []string{"the-first-waiter-hears-of-a-release"},
		event: func(_ *badWire, ev *driver.Event) bool { ev.Grant.Token++; return true }},
	{name: "an event comes over nothing known", found: []string{"the-first-waiter-hears-of-a-release"},
		event: func(_ *badWire, ev *driver.Event) bool { ev.Grant.Session = nil; return true }},
	{name: "a waiter that hears has no session", found: []string{"the-first-waiter-hears-of-a-release"},
		asked: answered(nil, func(a *driver.Answer) { a.Session = nil })},
	{name: "the holder does not hear of a break", event: dropped(driver.Lost), found: []string{"the-holder-hears-who-has-broken-its-lease-and-why"}},
	{name: "the holder does not hear who has broken its lease", found: []string{"the-holder-hears-who-has-broken-its-lease-and-why"},
		event: func(_ *badWire, ev *driver.Event) bool { ev.Loss = nil; return true }},
	{name: "all hear all events", found: []string{"events-go-to-who-has-asked"},
		event: func(w *badWire, ev *driver.Event) bool {
			for _, other := range w.s.wires {
				other.send(*ev)
			}
			return false
		}},
	{name: "a client hears that what it has ended is lost", found: []string{"a-client-hears-no-loss-of-what-it-has-ended"},
		end: func(w *badWire, l driver.Ref, how driver.End) (bool, error) {
			w.send(driver.Event{Kind: driver.Lost, Name: l.Name, Lease: l.Lease})
			return w.Store.End(context.Background(), l, how)
		}},
	{name: "who stops listening makes the client deaf", found: []string{"a-name-is-heard-again-after-stop"},
		hear: func(w *badWire, name string) (<-chan struct{}, func()) {
			ready, _ := w.Store.Hear(name)
			return ready, func() { w.mu.Lock(); w.deaf[name] = true; w.mu.Unlock() }
		}},
	{name: "events never arrive", found: []string{"the-first-waiter-hears-of-a-release"},
		hear: func(*badWire, string) (<-chan struct{}, func()) { return nil, func() {} }},
	{name: "nobody hears what it may have missed", event: dropped(driver.Missed), found: []string{"events-that-were-cut-off-are-missed"}},
}
