// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

var showChecks = []Check{
	{Name: "inspect-shows-holders-and-the-queue", Needs: []string{"Shows"}, run: inspects},
	{Name: "inspect-shows-each-holder-of-a-name", Needs: []string{"Shows", "Shared"}, run: inspectsKinds},
	{Name: "inspect-of-a-free-name-shows-nobody", Needs: []string{"Shows"}, run: inspectsFree},
	{Name: "list-is-sorted-and-by-prefix", Needs: []string{"Shows"}, run: lists},
	{Name: "a-break-ends-that-lease-and-no-other", Needs: []string{"Shows"}, run: breaks},
	{Name: "a-lease-that-was-broken-is-lost", Needs: []string{"Shows", "Expiry"}, run: brokenIsLost},
	{Name: "a-store-that-cannot-show-says-so", Needs: []string{"no Shows"}, run: cannotShow},
	{Name: "describe-and-examine-change-nothing", run: describes},
	{Name: "a-store-that-was-closed-disturbs-nobody", run: closes},
}

// inspect describes a name.
func (e *env) inspect(name string) *driver.Info {
	e.Helper()
	info, err := e.open().Inspect(e.ctx, name)
	if err != nil || info == nil || info.Name != name {
		e.Fatalf("Inspect(%.80q) = %+v, %v; want what there is", name, info, err)
	}
	return info
}

// nobody checks that nobody holds a name, or waits for it.
func (e *env) nobody(name string) {
	e.Helper()
	if info := e.inspect(name); len(info.Holders) != 0 || len(info.Waiters) != 0 {
		e.Errorf("Inspect(%.80q) shows %+v; want nobody", name, info)
	}
}

// shows checks that others are shown the lease of r, which was granted with ans.
func (e *env) shows(got driver.Held, r *driver.Request, ans driver.Answer) {
	e.Helper()
	want := driver.Held{
		Holder: *r.Holder, Lease: r.Lease, Token: driver.Token(ans.Token), Why: r.Why, Shared: r.Shared, Slots: r.Slots,
		Acquired: got.Acquired, Renewed: got.Renewed, Expires: got.Expires,
	}
	if got.Acquired.IsZero() || got != want {
		e.Errorf("the holder is shown as %#v; want %#v, and since when", got, want)
	}
}

func inspects(e *env) {
	p, r := e.open(), e.request()
	ans := p.take(r)
	var waiters []*driver.Request
	if p.Caps().Queue {
		for i := range 2 {
			w := e.request()
			w.Shared = i == 1 && p.Caps().Shared
			w.Holds = []driver.Hold{{Name: "other", Lease: "1"}}
			e.open().wait(w)
			waiters = append(waiters, w)
		}
	}
	info := e.inspect(r.Name)
	if len(info.Holders) != 1 || len(info.Waiters) != len(waiters) || info.Token < driver.Token(ans.Token) {
		e.Fatalf("Inspect = %+v; want one holder with token %d, and %d waiters", info, ans.Token, len(waiters))
	}
	h := info.Holders[0]
	e.shows(h, r, ans)
	if !h.Expires.IsZero() && !p.Caps().Expiry {
		e.Errorf("Inspect shows that the lease expires at %v; Caps.Expiry is false", h.Expires)
	}
	for i, w := range waiters {
		got := info.Waiters[i]
		want := driver.Waiter{Holder: *w.Holder, Lease: w.Lease, Since: got.Since, Why: w.Why, Shared: w.Shared, Holds: w.Holds}
		if got.Since.IsZero() || !reflect.DeepEqual(got, want) {
			e.Errorf("Inspect shows waiter %d as %#v; want %#v, and since when", i, got, want)
		}
	}
	p.end(r)
}

func inspectsKinds(e *env) {
	ps, rs := e.together(2, func() *driver.Request { return shared(e.request()) })
	info := e.inspect(rs[0].Name)
	for i, r := range rs {
		if j := slices.IndexFunc(info.Holders, func(h driver.Held) bool { return h.Lease == r.Lease }); j < 0 || !info.Holders[j].Shared || len(info.Holders) != 2 {
			e.Errorf("Inspect shows the holders %+v; want two readers, one with lease %s", info.Holders, r.Lease)
		}
		ps[i].end(r)
	}
	if !ps[0].Caps().Slots {
		return
	}
	r := slot(e.request(), 2)
	ps[0].take(r)
	if h := e.inspect(r.Name).Holders; len(h) != 1 || h[0].Slots != 2 || h[0].Shared {
		e.Errorf("Inspect shows the holders %+v; want one of 2 slots", h)
	}
	ps[0].end(r)
}

func inspectsFree(e *env) {
	p, r := e.open(), e.short()
	e.nobody(r.Name)
	p.take(r)
	p.end(r)
	e.nobody(r.Name)
	if !p.Caps().Expiry {
		return
	}
	p.take(r)
	e.eventually(e.h.TTL, "Inspect does not show a lease of which the TTL is over", func() (bool, error) {
		return len(e.inspect(r.Name).Holders) == 0, nil
	})
}

func lists(e *env) {
	p := e.open()
	var held []*driver.Request
	for _, name := range []string{"b", "a/2", "a/1", "a", "ab", "free"} {
		r := e.of(name)
		p.take(r)
		held = append(held, r)
	}
	p.end(held[5])
	for prefix, want := range map[string]string{"": "a a/1 a/2 ab b", "a": "a a/1 a/2 ab", "a/": "a/1 a/2", "free": "", "z": ""} {
		list, err := e.open().List(e.ctx, e.name(prefix))
		var got []string
		for _, info := range list {
			got = append(got, strings.TrimPrefix(info.Name, e.prefix))
			if len(info.Holders) != 1 {
				e.Errorf("List shows the holders %+v of %q; want one", info.Holders, info.Name)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			e.Errorf("List(%q) = %q, %v; want %s", prefix, got, err, want)
		}
	}
}

func breaks(e *env) {
	p, r, by := e.open(), e.request(), &driver.Holder{Who: "breaker"}
	other := e.open()
	if err := other.breaks(r.Name, r.Lease, by, "free"); !errors.Is(err, driver.ErrReleased) {
		e.Errorf("Break of a free name = %v; want ErrReleased", err)
	}
	p.take(r)
	var held *driver.HeldError
	if err := other.breaks(r.Name, r.Lease+"x", by, "wrong"); !errors.As(err, &held) || held.Info == nil || len(held.Info.Holders) != 1 || held.Info.Holders[0].Lease != r.Lease {
		e.Errorf("Break with a wrong id = %v; want a HeldError that shows the holder", err)
	}
	e.held(r)
	other.mustBreak(r, by, "right")
	e.free(r)
	p.gone(r)
	next := e.request()
	p.take(next)
	if err := other.breaks(r.Name, r.Lease, by, "late"); !errors.As(err, &held) {
		e.Errorf("Break of a lease that another has followed = %v; want a HeldError", err)
	}
	e.held(next)
	p.end(next)
	if !p.Caps().Shared {
		return
	}
	ps, rs := e.together(2, func() *driver.Request { return shared(e.request()) })
	if err := other.breaks(r.Name, rs[0].Lease, by, "one"); err != nil {
		e.Errorf("Break of one of two readers = %v; want nil", err)
	}
	ps[0].gone(rs[0])
	e.held(rs[1])
	ps[1].end(rs[1])
}

func brokenIsLost(e *env) {
	p, r := e.open(), e.request()
	p.take(r)
	e.open().mustBreak(r, &driver.Holder{Who: "breaker"}, "it is stuck")
	for range 2 {
		_, err := p.Renew(e.ctx, p.ref(r), e.h.TTL)
		var l *driver.LostError
		if !errors.As(err, &l) || l.Reason != driver.Broken || l.Why != "it is stuck" || l.By == nil || l.By.Who != "breaker" {
			e.Errorf("Renew of a lease that was broken = %v; want by whom, and why", err)
		}
	}
}

func cannotShow(e *env) {
	p := e.open()
	_, inspect := p.Inspect(e.ctx, "a")
	_, list := p.List(e.ctx, "")
	for _, err := range []error{inspect, list, p.Break(e.ctx, "a", "1", &driver.Holder{}, "")} {
		if !errors.Is(err, errors.ErrUnsupported) {
			e.Errorf("Inspect, List or Break = %v; want ErrUnsupported", err)
		}
	}
}

func describes(e *env) {
	p, r := e.open(), e.request()
	ans := p.take(r)
	info, err := p.Describe(e.ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		info, err = &driver.StoreInfo{}, nil
	}
	if err != nil || info == nil || info.Closed != 0 || info.MaxTTL != 0 && info.MaxTTL < r.TTL {
		e.Errorf("Describe = %+v, %v; want that it is open for a lease of %v, which it has granted", info, err, r.TTL)
	}
	for _, f := range p.Examine(e.ctx) {
		if f.Check == "" || f.Text == "" || f.Level != driver.Fine && f.Do == "" {
			e.Errorf("Examine found %+v; want what was looked at, what there is and what to do", f)
		}
	}
	if p.take(r).Token != ans.Token {
		e.Error("the lease is another one")
	}
	p.end(r)
	e.free(r)
}

// closes: the leases of others stay, and requests of a closed store return.
func closes(e *env) {
	p, other, r := e.open(), e.open(), e.request()
	other.take(r)
	for range 2 {
		if err := p.Close(); err != nil {
			e.Errorf("Close = %v; want nil", err)
		}
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.h.soon)
	defer cancel()
	ans, err := p.Ask(ctx, e.request())
	if ans.Granted || ctx.Err() != nil {
		e.Errorf("Ask of a closed store = granted %v, %v, context %v; want that it is refused, or fails", ans.Granted, err, ctx.Err())
	}
	e.held(r)
	other.end(r)
	e.free(r)
}
