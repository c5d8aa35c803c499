// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"errors"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var renewChecks = []Check{
	{Name: "a-renewal-prolongs", Needs: []string{"Expiry"}, run: prolongs},
	{Name: "a-renewal-never-shortens", Needs: []string{"Expiry"}, run: neverShortens},
	{Name: "a-renewal-for-a-microsecond-only-asks", Needs: []string{"Expiry"}, run: onlyAsks},
	{Name: "a-renewal-never-revives", Needs: []string{"Expiry"}, run: neverRevives},
	{Name: "a-renewal-may-be-for-a-longer-ttl", Needs: []string{"Expiry", "LongerTTL"}, run: longer},
	{Name: "a-renewal-for-a-longer-ttl-is-refused", Needs: []string{"Expiry", "no LongerTTL"}, run: notLonger},
	{Name: "a-late-renewal-spares-the-successor", Needs: []string{"Expiry"}, run: lateRenewal},
	{Name: "a-lease-is-renewed-and-ended-by-its-id", Needs: []string{"Expiry", "Adopts"}, run: byID},
}

// lateFor reports whether a lease of r may have ended because this machine was late.
func lateFor(since driver.Instant, r *driver.Request) bool {
	return driver.Now() >= trusted(since, r.TTL)
}

// prolongs holds a lease for two TTLs.
func prolongs(e *env) {
	e.soonEnough(func(e *env) (late bool) {
		p, other, r, w := e.open(), e.open(), e.short(), e.request()
		first := p.take(r).Since
		since := first
		w.Queue = p.Caps().Queue
		other.hear(r.Name)
		for driver.Now() < first.Add(2*e.h.TTL) {
			time.Sleep(e.h.TTL / 8)
			n, err := p.Renew(e.ctx, p.ref(r), e.h.TTL)
			if lost(err) && lateFor(since, r) {
				return true
			}
			if err != nil || n.Since <= since {
				e.Fatalf("Renew = %+v, %v; want a later TTL than from %v on", n, err, since)
			}
			since = n.Since
			if ans, err := other.ask(w); (err != nil || ans.Granted) && !lateFor(since, r) {
				e.Fatalf("Ask of another = granted %v, %v; want that it is refused, the lease is renewed", ans.Granted, err)
			}
		}
		other.leave(w)
		e.soonFree(other, r)
		e.notEarly(since)
		return false
	})
}

// neverShortens: a request that was given up may be carried out after one for a longer TTL.
func neverShortens(e *env) {
	p, r := e.open(), e.request()
	p.take(r)
	for _, ttl := range []time.Duration{e.h.TTL, driver.MinTTL, e.h.TTL} {
		if n := p.renew(r, ttl); !n.Kept && n.At != 0 {
			e.Errorf("Renew for %v of a lease for %v = %+v; want that it is kept", ttl, r.TTL, n)
		}
	}
	time.Sleep(e.h.TTL + min(e.h.TTL/2, e.h.soon))
	e.held(r)
	p.end(r)
}

func onlyAsks(e *env) {
	e.soonEnough(func(e *env) (late bool) {
		p, r := e.open(), e.short()
		since := p.take(r).Since
		sleepUntil(since.Add(e.h.TTL / 2))
		_, err := p.Renew(e.ctx, p.ref(r), time.Microsecond)
		switch {
		case lateFor(since, r):
			return true
		case err != nil:
			e.Fatalf("Renew for a microsecond = %v; want nil", err)
		}
		time.Sleep(e.h.pause)
		ans, err := e.open().ask(e.request())
		if lateFor(since, r) {
			return true
		}
		if err != nil || ans.Granted {
			e.Errorf("Ask of another = granted %v, %v; want that it is refused, the TTL is not over", ans.Granted, err)
		}
		e.soonFree(e.open(), r)
		e.overdue(since)
		return false
	})
}

// ends are the ways in which a lease ends. Only an end that is unseen leaves the record of the lease as it is, in a
// store that compares times.
func (e *env) ends(p *party, r *driver.Request) map[string]func() {
	ways := map[string]func(){
		"was released": func() { p.end(r) },
		"never was":    func() { p.end(r); r.Lease += "x" },
		"has expired":  func() { e.soonFree(e.open(), r) },
	}
	if p.Caps().Shows {
		ways["has expired unseen"] = func() {
			other := e.open()
			e.eventually(e.h.TTL, "the lease expires", func() (bool, error) {
				info, err := other.Inspect(e.ctx, r.Name)
				return err == nil && len(info.Holders) == 0, err
			})
		}
	} else if e.exact() {
		ways["has expired unseen"] = func() { time.Sleep(e.h.TTL + e.h.soon) }
	}
	if p.Caps().Shows {
		ways["was broken"] = func() {
			if err := e.open().breaks(r.Name, r.Lease, r.Holder, "test"); err != nil && !errors.Is(err, driver.ErrReleased) {
				e.Fatalf("Break = %v; want nil", err)
			}
		}
	}
	return ways
}

func neverRevives(e *env) {
	p := e.open()
	for _, how := range []string{"was released", "never was", "has expired", "has expired unseen", "was broken"} {
		r := e.short()
		r.Name = e.name(how)
		if !strings.HasPrefix(how, "has expired") {
			r.TTL = e.h.Long
		}
		end := e.ends(p, r)[how]
		if end == nil {
			continue
		}
		p.take(r)
		end()
		for range 2 {
			if n, err := p.Renew(e.ctx, p.ref(r), e.h.TTL); !lost(err) {
				e.Errorf("Renew of a lease that %s = %+v, %v; want a LostError", how, n, err)
			}
			e.free(r)
		}
	}
}

// longer: a request for the first TTL that is repeated after the renewal does not shorten the lease either.
func longer(e *env) {
	e.soonEnough(func(e *env) (late bool) {
		p, once, twice := e.open(), e.short(), e.short()
		twice.Name = e.name("asked again")
		for _, r := range []*driver.Request{once, twice} {
			since := p.take(r).Since
			_, err := p.Renew(e.ctx, p.ref(r), e.h.Long)
			switch {
			case lost(err) && lateFor(since, r):
				return true
			case err != nil:
				e.Fatalf("Renew for a longer TTL = %v; want nil", err)
			}
		}
		p.take(twice)
		sleepUntil(driver.Now().Add(e.h.TTL + min(e.h.TTL/2, e.h.soon)))
		e.held(once)
		other := e.of("asked again")
		if ans, err := e.open().ask(other); err != nil || ans.Granted {
			e.Fatalf("Ask of another = granted %v, %v; want that it is refused: a repeated request has shortened the lease", ans.Granted, err)
		}
		p.end(once)
		p.leave(twice)
		return false
	})
}

func notLonger(e *env) {
	p, r := e.open(), e.short()
	p.take(r)
	if n, err := p.Renew(e.ctx, p.ref(r), e.h.Long); !errors.Is(err, errors.ErrUnsupported) && !lost(err) {
		e.Errorf("Renew for a longer TTL = %+v, %v; want ErrUnsupported", n, err)
	}
	e.soonFree(e.open(), r)
}

func lateRenewal(e *env) {
	p, r := e.open(), e.short()
	p.take(r)
	e.soonFree(e.open(), r)
	next, other := e.request(), e.open()
	other.take(next)
	if n, err := p.Renew(e.ctx, p.ref(r), e.h.Long); !lost(err) && !errors.Is(err, errors.ErrUnsupported) {
		e.Errorf("Renew of a lease that was followed by another = %+v, %v; want a LostError", n, err)
	}
	p.gone(r)
	e.held(next)
	other.renew(next, e.h.TTL)
	other.end(next)
	e.free(next)
}

// byID has another participant renew and end leases of those that have gone.
func byID(e *env) {
	caps := e.open().Caps()
	e.endByID(e.request())
	if caps.Shared {
		e.endByID(shared(e.request()))
	}
	if caps.Slots {
		e.endByID(slot(e.request(), 1))
	}
}

func (e *env) endByID(r *driver.Request) {
	e.Helper()
	p := e.open()
	p.take(r)
	if err := p.Close(); err != nil {
		e.Errorf("Close = %v; want nil", err)
	}
	e.held(r)
	other := e.open()
	other.renew(r, e.h.Long)
	wrong := *r
	wrong.Lease += "x"
	other.gone(&wrong)
	e.held(r)
	other.end(r)
	e.free(r)
	if n, err := other.Renew(e.ctx, other.ref(r), e.h.TTL); !lost(err) {
		e.Errorf("Renew of a lease that was ended by its id = %+v, %v; want a LostError", n, err)
	}
}
