// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// changed returns a mistake that sends other requests.
func changed(f func(r *driver.Request)) func(context.Context, *badWire, *driver.Request) (driver.Answer, error) {
	return func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
		c := *r
		f(&c)
		return w.Store.Ask(ctx, &c)
	}
}

// answered returns a mistake in answers that grant, and in others.
func answered(granted, refused func(a *driver.Answer)) func(*badWire, *driver.Request, *driver.Answer) {
	return func(_ *badWire, _ *driver.Request, a *driver.Answer) {
		if f := map[bool]func(*driver.Answer){true: granted, false: refused}[a.Granted]; f != nil {
			f(a)
		}
	}
}

// dropped returns a mistake that loses events of these kinds.
func dropped(kinds ...driver.EventKind) func(*badWire, *driver.Event) bool {
	return func(_ *badWire, ev *driver.Event) bool { return !slices.Contains(kinds, ev.Kind) }
}

var mistakes = slices.Concat(askMistakes, renewMistakes, endMistakes, queueMistakes, eventMistakes, kindMistakes, showMistakes, faultMistakes)

var askMistakes = []*mistake{
	{name: "participants do not exclude each other", private: true,
		found: []string{"a-held-name-is-refused-and-shows-its-holder", "holders-never-overlap-under-load"}},
	{name: "a lease gets a new token when it asks again", found: []string{"a-lease-that-asks-again-is-granted-again"},
		asked: func(w *badWire, r *driver.Request, a *driver.Answer) { a.Token += uint64(w.s.count(r.Lease)) }},
	{name: "asking again is a second hold", found: []string{"a-lease-that-asks-again-is-granted-again"},
		asked: func(w *badWire, r *driver.Request, a *driver.Answer) { w.s.count(r.Lease) },
		end: func(w *badWire, l driver.Ref, how driver.End) (bool, error) {
			if w.s.times[l.Lease]--; w.s.times[l.Lease] > 0 {
				return true, nil
			}
			return w.Store.End(context.Background(), l, how)
		}},
	{name: "the TTL begins after the answer", found: []string{"a-free-name-is-granted"},
		asked: answered(func(a *driver.Answer) { a.Since++ }, nil)},
	{name: "the TTL begins when the lease asks again", found: []string{"a-lease-is-not-over-while-it-is-trusted"},
		asked: answered(func(a *driver.Answer) { a.Since = driver.Now() }, nil)},
	{name: "tokens without fencing", caps: func(c *driver.Caps) { c.Fencing = false }, found: []string{"a-free-name-is-granted"}},
	{name: "the clock of the server is that of an older answer", found: []string{"a-free-name-is-granted"},
		asked: answered(func(a *driver.Answer) { a.Clock = driver.Clock{Server: "a", Sent: 1, At: time.Hour} }, nil)},
	{name: "a refusal shows no holder", found: []string{"a-held-name-is-refused-and-shows-its-holder"},
		asked: answered(nil, func(a *driver.Answer) { a.Holders = nil })},
	{name: "the token is always the same", found: []string{"token-grows-with-each-grant"},
		asked: answered(func(a *driver.Answer) { a.Token = 1 }, nil)},
	{name: "a context that has ended is not looked at", found: []string{"a-request-whose-context-has-ended-grants-nothing"},
		ask: func(_ context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			return w.Store.Ask(context.Background(), r)
		}},
	{name: "a context error is masked", found: []string{"a-request-whose-context-has-ended-grants-nothing"},
		ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			if ctx.Err() != nil {
				return driver.Answer{}, &driver.Failure{Err: driver.ErrUnavailable}
			}
			return w.Store.Ask(ctx, r)
		}},
	{name: "names differ in more than their case", found: []string{"names-of-every-kind-are-apart"},
		ask: changed(func(r *driver.Request) { r.Name = strings.ToLower(r.Name) })},
	{name: "long names are cut off", found: []string{"names-of-every-kind-are-apart"},
		ask: changed(func(r *driver.Request) { r.Name = r.Name[:min(len(r.Name), driver.MaxName-1)] })},
	{name: "a lease lasts for twice its TTL", found: []string{"a-lease-ends-when-its-ttl-is-over", "free-says-when-a-refused-lease-may-be-granted"},
		ask: changed(func(r *driver.Request) { r.TTL *= 2 })},
	{name: "a lease ends before its TTL", found: []string{"a-lease-is-not-over-while-it-is-trusted"},
		ask: changed(func(r *driver.Request) { r.TTL = r.TTL * 9 / 10 })},
	{name: "Free is too short", found: []string{"free-says-when-a-refused-lease-may-be-granted"},
		asked: answered(nil, func(a *driver.Answer) { a.Free /= 2 })},
	{name: "leases expire that should not", caps: func(c *driver.Caps) { c.Expiry = false }, found: []string{"a-lease-without-expiry-stays"}},
}

// revive asks for a lease that has ended.
func revive(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	n, err := w.Store.Renew(ctx, l, ttl)
	if lost(err) {
		if ans, _ := w.Store.Ask(ctx, &driver.Request{Name: l.Name, Lease: l.Lease, TTL: ttl, Holder: new(driver.Holder)}); ans.Granted {
			return driver.Renewal{Since: ans.Since}, nil
		}
	}
	return n, err
}

var renewMistakes = []*mistake{
	{name: "a renewal does nothing", found: []string{"a-renewal-prolongs"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			n, err := w.Store.Renew(ctx, l, time.Microsecond)
			n.Kept = false
			return n, err
		}},
	{name: "a renewal shortens", found: []string{"a-renewal-never-shortens", "a-renewal-for-a-microsecond-only-asks"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			if _, err := w.Store.Renew(ctx, l, time.Microsecond); err != nil {
				return driver.Renewal{}, err
			}
			_, _ = w.Store.End(ctx, l, driver.End{})
			return revive(ctx, w, l, ttl)
		}},
	{name: "a renewal for a microsecond is one for long", found: []string{"a-renewal-for-a-microsecond-only-asks"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			return w.Store.Renew(ctx, l, max(ttl, 30*time.Second))
		}},
	{name: "a renewal revives", renew: revive, found: []string{"a-renewal-never-revives"}},
	{name: "a renewal revives a lease that nobody has followed", found: []string{"a-renewal-never-revives"},
		asked: func(w *badWire, r *driver.Request, a *driver.Answer) {
			if a.Granted {
				w.s.follow(r.Name, r.Lease)
			}
		},
		end: func(w *badWire, l driver.Ref, how driver.End) (bool, error) {
			w.s.follow(l.Name, "")
			return w.Store.End(context.Background(), l, how)
		},
		breaks: func(w *badWire, name, lease string, by *driver.Holder, why string) error {
			w.s.follow(name, "")
			return w.Store.Break(context.Background(), name, lease, by, why)
		},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			if w.s.lastOf(l.Name) == l.Lease {
				return revive(ctx, w, l, ttl)
			}
			return w.Store.Renew(ctx, l, ttl)
		}},
	{name: "a renewal is of whoever holds the name", found: []string{"a-late-renewal-spares-the-successor"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			n, err := w.Store.Renew(ctx, l, ttl)
			if lost(err) && len(w.info(l.Name).Holders) > 0 {
				return driver.Renewal{Since: driver.Now()}, nil
			}
			return n, err
		}},
	{name: "asking again shortens", found: []string{"a-renewal-may-be-for-a-longer-ttl"},
		ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			_, _ = w.Store.End(ctx, driver.Ref{Name: r.Name, Lease: r.Lease}, driver.End{})
			return w.Store.Ask(ctx, r)
		}},
	{name: "a longer TTL is refused", found: []string{"a-renewal-may-be-for-a-longer-ttl"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			if ttl > 30*time.Second {
				return driver.Renewal{}, errors.ErrUnsupported
			}
			return w.Store.Renew(ctx, l, ttl)
		}},
	{name: "a longer TTL is not refused", caps: func(c *driver.Caps) { c.LongerTTL = false }, found: []string{"a-renewal-for-a-longer-ttl-is-refused"}},
	{name: "a longer TTL is refused and stays", caps: func(c *driver.Caps) { c.LongerTTL = false },
		found: []string{"a-renewal-for-a-longer-ttl-is-refused"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			n, err := w.Store.Renew(ctx, l, ttl)
			if err == nil && ttl > 30*time.Second {
				err = errors.ErrUnsupported
			}
			return n, err
		}},
	{name: "only who has a lease renews it", found: []string{"a-lease-is-renewed-and-ended-by-its-id"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			if l.Handle == nil {
				return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
			}
			return w.Store.Renew(ctx, l, ttl)
		}},
}

// endAny ends every lease on a name.
func endAny(w *badWire, l driver.Ref, how driver.End) (bool, error) {
	for _, h := range w.info(l.Name).Holders {
		_, _ = w.Store.End(context.Background(), driver.Ref{Name: l.Name, Lease: h.Lease}, how)
	}
	return true, nil
}

// endAll ends every lease in the store.
func endAll(w *badWire) {
	all, _ := w.Store.List(context.Background(), "")
	for _, info := range all {
		_, _ = endAny(w, driver.Ref{Name: info.Name}, driver.End{})
	}
}

// endNone returns a mistake that ends nothing.
func endNone(found bool) endFunc {
	return func(*badWire, driver.Ref, driver.End) (bool, error) { return found, nil }
}

type endFunc func(w *badWire, l driver.Ref, how driver.End) (bool, error)

// endsWrong returns a mistake that is made when a condition is true.
func endsWrong(when func(w *badWire, l driver.Ref, how driver.End) bool, mistake endFunc) endFunc {
	return func(w *badWire, l driver.Ref, how driver.End) (bool, error) {
		if when(w, l, how) {
			return mistake(w, l, how)
		}
		return w.Store.End(context.Background(), l, how)
	}
}

var endMistakes = []*mistake{
	{name: "End does nothing", found: []string{"the-end-of-a-lease-frees-the-name-once"},
		end: endNone(true)},
	{name: "End says that it has found what is gone", found: []string{"the-end-of-a-lease-frees-the-name-once"},
		end: func(w *badWire, l driver.Ref, how driver.End) (bool, error) {
			_, err := w.Store.End(context.Background(), l, how)
			return true, err
		}},
	{name: "End ends whatever holds the name", end: endAny, found: []string{"a-second-end-spares-the-successor"}},
	{name: "an End that is in doubt ends whatever holds the name", found: []string{"a-second-end-spares-the-successor"},
		end: endsWrong(func(_ *badWire, _ driver.Ref, how driver.End) bool { return how.Doubt }, endAny)},
	{name: "an unsure End does not look into the queue", found: []string{"an-end-that-is-unsure-finds-what-is-there"},
		end: endsWrong(func(w *badWire, l driver.Ref, how driver.End) bool { return how.Unsure && w.waits(l.Name, l.Lease) }, endNone(false))},
	{name: "a request that arrives late is carried out", forgets: true, found: []string{"a-request-that-arrives-after-the-end-grants-nothing"}},
}

var kindMistakes = []*mistake{
	{name: "a reader keeps readers out", ask: changed(func(r *driver.Request) { r.Shared = false }), found: []string{"readers-share-and-keep-a-writer-out"}},
	{name: "a writer is a reader", found: []string{"readers-share-and-keep-a-writer-out"},
		ask: changed(func(r *driver.Request) { r.Shared = r.Slots == 0 })},
	{name: "readers overtake a writer", found: []string{"readers-that-follow-each-other-have-their-turn-together"},
		asked: func(w *badWire, r *driver.Request, a *driver.Answer) {
			if h := w.info(r.Name).Holders; !a.Granted && r.Shared && len(h) > 0 && h[0].Shared {
				*a = driver.Answer{Granted: true, Token: 99, Since: driver.Now()}
			}
		}},
	{name: "there is one slot more", found: []string{"a-slot-is-one-of-as-many-as-there-are"},
		ask: changed(func(r *driver.Request) { r.Slots += min(r.Slots, 1) })},
	{name: "slots of another number are held", found: []string{"slots-of-another-number-are-refused-for-good"},
		ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			ans, err := w.Store.Ask(ctx, r)
			if err != nil {
				return driver.Answer{Rank: 1}, nil
			}
			return ans, nil
		}},
	{name: "slots of another number may come", found: []string{"slots-of-another-number-are-refused-for-good"},
		ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			ans, err := w.Store.Ask(ctx, r)
			if err != nil {
				err = &driver.Failure{Err: driver.FailureOf(err).Err}
			}
			return ans, err
		}},
	{name: "leases expire together", found: []string{"a-reader-that-expires-spares-the-others", "a-slot-that-expires-spares-the-others"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			n, err := w.Store.Renew(ctx, l, ttl)
			if lost(err) {
				_, _ = endAny(w, l, driver.End{})
			}
			return n, err
		}},
	{name: "a slot is shared", found: []string{"leases-of-different-kinds-keep-each-other-out"},
		ask: changed(func(r *driver.Request) { r.Shared, r.Slots = r.Shared || r.Slots > 0, 0 })},
	{name: "a downgrade lets go", found: []string{"a-downgrade-lets-readers-in-and-no-writer"},
		ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			c := *r
			if c.Instead != "" {
				_, _ = w.Store.End(ctx, driver.Ref{Name: r.Name, Lease: r.Instead}, driver.End{})
				c.Instead = ""
			}
			return w.Store.Ask(ctx, &c)
		}},
	{name: "a downgrade of nothing is granted", found: []string{"a-downgrade-of-a-lease-that-has-ended-says-so"},
		ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
			ans, err := w.Store.Ask(ctx, r)
			if c := *r; lost(err) {
				c.Instead = ""
				return w.Store.Ask(ctx, &c)
			}
			return ans, err
		}},
	{name: "no tokens are set aside", found: []string{"a-kept-lease-has-tokens-to-spare"}, asked: answered(func(a *driver.Answer) { a.Spare = 0 }, nil)},
	{name: "too many tokens are set aside", found: []string{"a-kept-lease-has-tokens-to-spare"}, asked: answered(func(a *driver.Answer) { a.Spare++ }, nil)},
	{name: "a kept lease is not wanted", event: dropped(driver.Wanted), found: []string{"a-kept-lease-hears-who-wants-its-name"}},
	{name: "who is refused waits", found: []string{"a-kept-lease-hears-who-wants-its-name"},
		event: func(_ *badWire, ev *driver.Event) bool { ev.Waits = true; return true }},
	{name: "every lease is kept", ask: changed(func(r *driver.Request) { r.Keeps = true }), found: []string{"a-lease-that-is-not-kept-is-not-asked-for"}},
}

// seen returns a mistake in what Inspect shows.
func seen(f func(*driver.Info)) func(*driver.Info, error) (*driver.Info, error) {
	return func(info *driver.Info, err error) (*driver.Info, error) {
		f(info)
		return info, err
	}
}

// listed returns what of all a right List returns.
func listed(all []*driver.Info, prefix string) []*driver.Info {
	return slices.DeleteFunc(all, func(i *driver.Info) bool { return !strings.HasPrefix(i.Name, prefix) })
}

var showMistakes = []*mistake{
	{name: "Inspect does not show the queue", found: []string{"inspect-shows-holders-and-the-queue"},
		inspect: seen(func(i *driver.Info) { i.Waiters = nil })},
	{name: "Inspect shows the queue in disorder", found: []string{"inspect-shows-holders-and-the-queue"},
		inspect: seen(func(i *driver.Info) { slices.Reverse(i.Waiters) })},
	{name: "Inspect shows one holder", found: []string{"inspect-shows-each-holder-of-a-name"},
		inspect: seen(func(i *driver.Info) { i.Holders = i.Holders[:min(len(i.Holders), 1)] })},
	{name: "Inspect of a free name fails", found: []string{"inspect-of-a-free-name-shows-nobody"},
		inspect: func(i *driver.Info, err error) (*driver.Info, error) {
			if len(i.Holders) == 0 {
				return nil, driver.ErrReleased
			}
			return i, err
		}},
	{name: "List is not sorted", found: []string{"list-is-sorted-and-by-prefix"},
		list: func(all []*driver.Info, prefix string) []*driver.Info {
			all = listed(all, prefix)
			slices.Reverse(all)
			return all
		}},
	{name: "List takes the prefix for a directory", found: []string{"list-is-sorted-and-by-prefix"},
		list: func(all []*driver.Info, prefix string) []*driver.Info {
			return listed(all, strings.TrimSuffix(prefix, "/")+"/")
		}},
	{name: "List does not look at the prefix", found: []string{"list-is-sorted-and-by-prefix"},
		list: func(all []*driver.Info, _ string) []*driver.Info { return all }},
	{name: "Break ends whatever holds the name", found: []string{"a-break-ends-that-lease-and-no-other"},
		breaks: func(w *badWire, name, _ string, by *driver.Holder, why string) error {
			for _, h := range w.info(name).Holders {
				return w.Store.Break(context.Background(), name, h.Lease, by, why)
			}
			return driver.ErrReleased
		}},
	{name: "Break does not say who holds the name", found: []string{"a-break-ends-that-lease-and-no-other"},
		breaks: func(w *badWire, name, lease string, by *driver.Holder, why string) error {
			err := w.Store.Break(context.Background(), name, lease, by, why)
			if errors.Is(err, driver.ErrHeld) {
				err = driver.ErrReleased
			}
			return err
		}},
	{name: "a renewal does not say who has broken the lease", found: []string{"a-lease-that-was-broken-is-lost"},
		renew: func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
			n, err := w.Store.Renew(ctx, l, ttl)
			if lost(err) {
				err = &driver.LostError{Reason: driver.Gone}
			}
			return n, err
		}},
	{name: "a store shows what it cannot", caps: func(c *driver.Caps) { c.Shows = false }, found: []string{"a-store-that-cannot-show-says-so"}},
	{name: "Describe says that an open store is closed", found: []string{"describe-and-examine-change-nothing"},
		describe: func() *driver.StoreInfo { return &driver.StoreInfo{Closed: time.Second} }},
	{name: "Examine does not say what to do", found: []string{"describe-and-examine-change-nothing"},
		examine: func() []driver.Finding {
			return []driver.Finding{{Check: "role", Level: driver.Problem, Text: "it is a replica"}}
		}},
	{name: "Close ends the leases of others", found: []string{"a-store-that-was-closed-disturbs-nobody"},
		closes: endAll},
	{name: "a closed store grants leases", found: []string{"a-store-that-was-closed-disturbs-nobody"},
		closes: func(w *badWire) { w.s.store = new(memlock.Store); w.join() }},
}

var faultMistakes = []*mistake{
	{name: "a crash ends the leases of all", found: []string{"a-crash-frees-the-names-of-that-participant"},
		crash: endAll},
	{name: "a crash is forgotten", found: []string{"a-waiter-has-its-turn-after-a-crash-of-the-holder"},
		crash: func(*badWire) {},
		ask:   changed(func(r *driver.Request) { r.TTL *= 1000 })},
	{name: "a waiter that has crashed keeps its place for ever", found: []string{"a-crashed-waiter-is-passed-over"},
		crash: func(w *badWire) { w.setCut(true) },
		ask:   changed(func(r *driver.Request) { r.TTL *= 1000 })},
	{name: "a request that is cut off certainly did nothing", found: []string{"a-request-that-is-cut-off-says-what-is-known"},
		cut: func(w *badWire, r *driver.Request) error {
			if r != nil {
				_, _ = w.Store.Ask(context.Background(), r)
			}
			return &driver.Failure{Err: driver.ErrUnavailable, Silent: true}
		}},
	{name: "a request that is cut off was answered", found: []string{"a-request-that-is-cut-off-says-what-is-known"},
		cut: func(*badWire, *driver.Request) error {
			return &driver.Failure{Err: driver.ErrUnavailable, Maybe: true}
		}},
	{name: "a cut lasts", found: []string{"a-request-that-is-cut-off-says-what-is-known"},
		cut: func(*badWire, *driver.Request) error {
			return &driver.Failure{Err: driver.ErrUnavailable, Maybe: true, Silent: true, Lasting: true}
		}},
	{name: "a lease is lost that is cut off", found: []string{"a-holder-that-is-cut-off-keeps-nobody-out-for-long"},
		cut: func(*badWire, *driver.Request) error { return &driver.LostError{Reason: driver.Gone} }},
	{name: "Close waits for nobody", closes: func(*badWire) {}, found: []string{"close-ends-requests-under-way"}},
	{name: "a restart forgets all leases", found: []string{"a-restart-ends-no-lease-that-is-trusted", "a-lease-survives-a-restart"},
		restart: func(s *badService) {
			s.store = new(memlock.Store)
			for _, w := range s.wires {
				w.join()
			}
		}},
	{name: "a lease leaves a record", found: []string{"nothing-is-left"},
		end: func(w *badWire, l driver.Ref, how driver.End) (bool, error) {
			w.s.litter = append(w.s.litter, l.Lease)
			return w.Store.End(context.Background(), l, how)
		}},
}
