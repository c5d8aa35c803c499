// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// reader returns a new attempt to share name for long.
func (e *env) reader(name string) *driver.Request {
	req := e.request(name)
	req.Shared = true
	return req
}

// slot returns a new attempt to get one of n slots of name for long.
func (e *env) slot(name string, n int) *driver.Request {
	req := e.request(name)
	req.Slots = n
	return req
}

// brief makes req one for Harness.TTL.
func (e *env) brief(req *driver.Request) *driver.Request {
	req.TTL = e.h.TTL
	return req
}

// refused checks that d cannot have what req asks for.
func (e *env) refused(d driver.Driver, req *driver.Request) {
	e.Helper()
	g, err := d.TryAcquire(e.ctx, req)
	if g != nil || !errors.Is(err, driver.ErrHeld) {
		e.inTime(req.Name, err)
		e.Fatalf("TryAcquire(%.80q, %s) = %v, %v; want ErrHeld", req.Name, kindOf(req), show(g), err)
	}
}

// otherSlots checks that d is told that slots of another number are held.
func (e *env) otherSlots(d driver.Driver, req *driver.Request, held int) {
	e.Helper()
	acquire := map[string]acquirer{"TryAcquire": d.TryAcquire}
	if q, ok := d.(driver.Queuer); ok {
		acquire["Acquire"] = q.Acquire
	}
	for what, f := range acquire {
		g, err := f(e.ctx, req)
		var slots *driver.SlotsError
		if g != nil || !errors.As(err, &slots) || slots.Held != held || slots.Wanted != req.Slots {
			e.Errorf("%s of one of %d slots = %v, %v; want a *SlotsError: slots of %d are held", what, req.Slots, show(g), err, held)
		}
	}
}

// downgrade has the store grant req, which is shared, in place of g, which must be exclusive and held.
func (e *env) downgrade(g driver.Grant, req *driver.Request) driver.Grant {
	e.Helper()
	shared, err := g.(driver.Downgrader).Downgrade(e.ctx, req)
	if err != nil {
		e.inTime(g.Token(), err)
		e.Fatalf("Downgrade = %v; want nil", err)
	}
	e.ends.set(req.Name, shared.Token(), shared.Since().Add(req.TTL))
	return shared
}

// grantedInSteps grants the waiters of each step in turn: they must all be
// granted when those of the step before have all been released, and none of a
// later step earlier.
func (e *env) grantedInSteps(held []driver.Grant, steps ...[]*call) {
	e.Helper()
	for i, step := range steps {
		for _, g := range held {
			for _, later := range steps[i:] {
				for _, w := range later {
					w.waits()
				}
			}
			e.release(g)
			e.pause()
		}
		held = nil
		for _, w := range step {
			held = append(held, w.granted(e.h.Slack))
		}
	}
	for _, g := range held {
		e.release(g)
	}
}

// kindOf names the kind of lease that req asks for.
func kindOf(req *driver.Request) string {
	switch {
	case req.Shared:
		return "shared"
	case req.Slots > 0:
		return "slots"
	}
	return "exclusive"
}

// oneOfMany has several leases of the kind that ask makes held together, one of
// them for Harness.TTL, and ends that one with end. It checks that nothing
// happens to the others, and that the name is free when all are gone.
func (e *env) oneOfMany(ask func(string) *driver.Request, end func(d driver.Driver, req *driver.Request, g driver.Grant)) {
	e.Helper()
	a, b, c := e.open(), e.open(), e.open()
	name := e.name("deploy")
	left := e.tryReq(b, ask(name))
	req := e.brief(ask(name))
	gone := e.tryReq(a, req)
	right := e.tryReq(c, ask(name))
	end(a, req, gone)
	e.held(b, name)
	for _, g := range []driver.Grant{left, right} {
		if b.Guarantees().Expiry {
			e.renew(g, e.long())
		}
		e.held(b, name)
		e.release(g)
	}
	e.free(b, name)
}

// expireOne ends one of several leases by its TTL.
func (e *env) expireOne(_ driver.Driver, req *driver.Request, g driver.Grant) {
	e.expire()
	e.over(req.Name, 2)
	_, err := g.Renew(e.ctx, e.long())
	e.lost("Renew of one of several leases that has expired", err)
	e.lost("Release of one of several leases that has expired", g.Release(e.ctx))
}

// breakOne ends one of several leases by Break.
func (e *env) breakOne(_ driver.Driver, req *driver.Request, g driver.Grant) {
	calls, told := e.letGo(g)
	b := e.open()
	if err := e.breakLease(b, req.Name, "no such lease"); !errors.Is(err, driver.ErrHeld) {
		e.Errorf("Break of none of several leases = %v; want ErrHeld", err)
	}
	if err := e.breakLease(b, req.Name, req.Lease); err != nil {
		e.inTime(g.Token(), err)
		e.Fatalf("Break of one of several leases = %v; want nil", err)
	}
	if _, ok := g.(driver.Notifier); ok {
		e.told(told)
	}
	if err := e.breakLease(b, req.Name, req.Lease); !errors.Is(err, driver.ErrHeld) {
		e.Errorf("second Break of one of several leases = %v; want ErrHeld: others hold the name", err)
	}
	if n := calls.Load(); n > 1 {
		e.Errorf("the holder was told %d times; want once", n)
	}
}

// crashOne ends one of several leases with its participant.
func (e *env) crashOne(d driver.Driver, req *driver.Request, _ driver.Grant) {
	time.Sleep(e.crash(d))
	e.over(req.Name, 2)
}
