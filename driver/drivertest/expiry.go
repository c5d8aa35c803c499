// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var (
	expiry = []string{"Expiry"}
	// LongerTTL: a renewal can be for a longer TTL than the request.
	longer = []string{"Expiry", "LongerTTL"}
)

var expiryTests = []Test{
	{Name: "expiry-frees-the-name", Needs: expiry, run: expiryFrees},
	{Name: "expiry-is-not-before-since-plus-ttl", Needs: expiry, run: expiryNotBefore},
	{Name: "renewal-extends", Needs: expiry, run: renewalExtends},
	{Name: "renewal-takes-the-new-ttl", Needs: longer, run: renewalTTL},
	{Name: "renewal-never-shortens", Needs: longer, run: renewalNever},
	{Name: "late-release-spares-successor", Needs: expiry, run: lateRelease},
	{Name: "late-renewal-spares-successor", Needs: expiry, run: lateRenewal},
	{Name: "late-renewal-never-revives", Needs: expiry, run: lateRenewalFree},
	{Name: "late-release-says-lost", Needs: expiry, run: lateReleaseFree},
	{Name: "token-grows-after-expiry", Needs: []string{"Expiry", "Fencing"}, run: tokenAfterExpiry},
}

func expiryFrees(e *env) {
	a, b := e.open(), e.open()
	e.tryReq(a, e.short(e.name("deploy")))
	e.held(b, e.name("deploy"))
	e.expire()
	e.over(e.name("deploy"), 0)
	e.free(b, e.name("deploy"))
}

// over waits until no more than left leases on name are left of those that have expired. A store
// that ends them itself, and does not look at the clock at each request, may be late.
func (e *env) over(name string, left int) {
	e.Helper()
	d := e.open()
	in, ok := d.(driver.Inspector)
	if !ok || !e.h.real {
		return
	}
	e.eventually(e.h.Slack, func() error {
		info, err := in.Inspect(e.ctx, name)
		if err == nil && len(info.Holders) > left {
			err = fmt.Errorf("%d leases are held on %q; want %d: the others have expired", len(info.Holders), name, left)
		}
		return err
	})
}

// expiryNotBefore asks for the name all the time, and looks at when it was got.
// By then, by the local clock, Since + TTL must have passed: otherwise there was
// a moment at which the first holder still trusted its lease. The clocks of
// store and client may differ in rate by what driver.Drift allows.
func expiryNotBefore(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	e.notBefore(b, name, e.tryReq(a, e.short(name)).Since())

	g := e.tryReq(a, e.short(name))
	time.Sleep(e.h.TTL / 4)
	e.notBefore(b, name, e.renew(g, e.h.TTL))
}

// notBefore has d wait for a name that is held for a TTL from since.
func (e *env) notBefore(d driver.Driver, name string, since driver.Instant) {
	e.Helper()
	trusted := since.Add(e.h.TTL - driver.Drift(e.h.TTL))
	sleepUntil(since.Add(e.h.TTL * 3 / 4))
	e.eventually(e.h.TTL+e.h.Slack, func() error {
		g, err := d.TryAcquire(e.ctx, e.request(name))
		if errors.Is(err, driver.ErrHeld) {
			return err
		}
		if got := driver.Now(); got < trusted {
			e.Errorf("the name came free %v before the first holder's deadline", trusted.Sub(got))
		}
		if err == nil {
			e.release(g)
		}
		return err
	})
}

func (e *env) renew(g driver.Grant, ttl time.Duration) driver.Instant {
	e.Helper()
	since, err := g.Renew(e.ctx, ttl)
	if err != nil {
		e.inTime(g.Token(), err)
		e.Fatalf("Renew = %v; want nil", err)
	}
	if l, ok := e.ends.get(g.Token()); ok {
		e.ends.set(l.name, g.Token(), since.Add(ttl))
	}
	return since
}

// expireBut is expire, but for g, which is renewed.
func (e *env) expireBut(g driver.Grant) {
	e.Helper()
	for end := driver.Now().Add(e.h.TTL + e.h.Slack); driver.Now() < end; {
		e.renew(g, e.h.TTL)
		time.Sleep(e.h.TTL / 8)
	}
}

// renewalExtends holds a lease for two TTLs. If the test itself is late for a
// renewal, as on a busy machine, a lost lease says nothing, and it begins again.
func renewalExtends(e *env) {
	a, b := e.open(), e.open()
	for attempt := range 5 {
		name := e.name(fmt.Sprint("deploy", attempt))
		g := e.tryReq(a, e.short(name))
		since, end := g.Since(), g.Since().Add(2*e.h.TTL)
		var err error
		for err == nil && driver.Now() < end {
			time.Sleep(e.h.TTL / 8)
			var renewed driver.Instant
			if renewed, err = g.Renew(e.ctx, e.h.TTL); err == nil {
				since = renewed
				e.held(b, name)
			}
		}
		if err == nil {
			e.expire()
			e.over(name, 0)
			e.free(b, name)
			return
		}
		if driver.Now() < since.Add(e.h.TTL-driver.Drift(e.h.TTL)) {
			e.Fatalf("Renew = %v; want nil", err)
		}
	}
	e.Fatal("this machine is too busy to renew in time")
}

func renewalTTL(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	g := e.tryReq(a, e.short(name))
	e.renew(g, e.long())
	e.expire()
	e.held(b, name)
}

// renewalNever: a request that was given up may be carried out late, after one
// for a longer TTL that the client trusts by then.
func renewalNever(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	g := e.tryReq(a, e.short(name))
	e.renew(g, e.long())
	e.renew(g, e.h.TTL)
	e.expire()
	e.held(b, name)
	e.release(g)
	e.free(b, name)
}

// expired returns a grant that has expired, its participant, and its name.
func (e *env) expired() (driver.Grant, driver.Driver, string) {
	e.Helper()
	a, name := e.open(), e.name("deploy")
	g := e.tryReq(a, e.short(name))
	e.expire()
	e.over(name, 0)
	return g, a, name
}

func lateRelease(e *env) {
	old, a, name := e.expired()
	g := e.try(e.open(), name)
	e.lost("late Release", old.Release(e.ctx))
	e.held(a, name)
	e.renew(g, e.long())
	e.release(g)
	e.free(a, name)
}

func lateRenewal(e *env) {
	old, a, name := e.expired()
	g := e.try(e.open(), name)
	_, err := old.Renew(e.ctx, e.long())
	e.lost("late Renew", err)
	e.held(a, name)
	e.release(g)
	e.free(a, name)
}

// lateRenewalFree: even if nobody has taken the name since, somebody may have
// had it in between.
func lateRenewalFree(e *env) {
	old, _, name := e.expired()
	b := e.open()
	_, err := old.Renew(e.ctx, e.long())
	e.lost("late Renew of a free name", err)
	e.free(b, name)
	_, err = old.Renew(e.ctx, e.long())
	e.lost("late Renew after another's lease", err)
	e.free(b, name)
}

func lateReleaseFree(e *env) {
	old, _, name := e.expired()
	e.lost("Release of an expired grant", old.Release(e.ctx))
	e.free(e.open(), name)
}

func tokenAfterExpiry(e *env) {
	old, _, name := e.expired()
	g := e.try(e.open(), name)
	if g.Token() <= old.Token() {
		e.Errorf("token %d after expired token %d; want a greater one", g.Token(), old.Token())
	}
}
