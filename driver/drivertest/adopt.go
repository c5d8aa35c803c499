// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var adopter = []string{"Adopter"}

var adoptTests = []Test{
	{Name: "adopted-lease-outlives-its-participant", Needs: adopter, run: adoptOutlives},
	{Name: "adopted-lease-ends-with-its-release", Needs: adopter, run: adoptRelease},
	{Name: "adoption-needs-the-id-of-the-holder", Needs: adopter, run: adoptWrongID},
	{Name: "adoption-of-a-lease-that-waits-is-refused", Needs: []string{"Adopter", "Queuer"}, run: adoptWaiter},
	{Name: "adopted-lease-is-never-revived", Needs: adopter, run: adoptLate},
	{Name: "adopted-release-spares-the-successor", Needs: adopter, run: adoptSuccessor},
	{Name: "adopted-lease-that-is-broken-tells-who-and-why", Needs: []string{"Adopter", "Inspector"}, run: adoptBroken},
	{Name: "adopted-reader-is-one-of-several", Needs: []string{"Adopter", "Shared"}, run: func(e *env) { e.adoptOne(e.reader) }},
	{Name: "adopted-slot-is-one-of-several", Needs: []string{"Adopter", "Slots"}, run: func(e *env) { e.adoptOne(e.threeSlots) }},
}

// adopt has d take over the lease of req, which g is.
func (e *env) adopt(d driver.Driver, req *driver.Request, g driver.Grant) driver.Grant {
	e.Helper()
	got, err := d.(driver.Adopter).Adopt(e.ctx, req.Name, req.Lease)
	if err != nil || got == nil {
		e.inTime(g.Token(), err)
		e.Fatalf("Adopt = %s, %v; want a grant", show(got), err)
	}
	if got.Token() != g.Token() || got.Since() != 1 {
		e.Errorf("Adopt = token %d, since %d; want token %d, and the first instant", got.Token(), got.Since(), g.Token())
	}
	return got
}

func (e *env) adoptRefused(d driver.Driver, name, lease string) {
	e.Helper()
	if g, err := d.(driver.Adopter).Adopt(e.ctx, name, lease); g != nil || !errors.Is(err, driver.ErrLost) {
		e.Errorf("Adopt(%.80q, %q) = %s, %v; want ErrLost", name, lease, show(g), err)
	}
}

// outlasts renews g until the TTL of its request is over, once if it can be renewed for
// longer than that.
func (e *env) outlasts(g driver.Grant) {
	e.Helper()
	switch _, err := g.Renew(e.ctx, e.long()); {
	case err == nil:
		e.expire()
	case errors.Is(err, errors.ErrUnsupported):
		e.expireBut(g)
	default:
		e.inTime(g.Token(), err)
		e.Fatalf("Renew of an adopted grant = %v; want nil", err)
	}
}

func adoptOutlives(e *env) {
	a, b, c := e.open(), e.open(), e.open()
	req := e.short(e.name("brief"))
	brief := e.adopt(b, req, e.tryReq(a, req))
	time.Sleep(e.h.TTL / 4)
	e.notBefore(c, req.Name, e.renew(brief, e.h.TTL))
	req = e.short(e.name("deploy"))
	first := e.tryReq(a, req)
	a.Close()
	g := e.adopt(b, req, first)
	e.outlasts(g)
	e.held(c, req.Name)
	g = e.adopt(c, req, first)
	e.release(g)
	e.free(b, req.Name)
}

func adoptRelease(e *env) {
	a, b := e.open(), e.open()
	req := e.request(e.name("deploy"))
	first := e.tryReq(a, req)
	g := e.adopt(b, req, first)
	e.release(g)
	e.release(g) // once more
	_, err := g.Renew(e.ctx, e.long())
	e.ended("Renew of an adopted grant after Release", err)
	_, err = first.Renew(e.ctx, e.long())
	e.ended("Renew of a grant that was released by its id", err)
	next := e.try(b, req.Name)
	if err := first.Release(e.ctx); err != nil {
		e.ended("Release of a grant that was released by its id", err)
	}
	e.held(a, req.Name)
	e.release(next)
}

func adoptWrongID(e *env) {
	a, b := e.open(), e.open()
	req, other := e.request(e.name("deploy")), e.request(e.name("other"))
	e.adoptRefused(b, req.Name, req.Lease)
	g, next := e.tryReq(a, req), e.tryReq(a, other)
	for _, id := range []string{other.Lease, "nosuchlease", "", "*", req.Lease[1:], req.Lease + " "} {
		e.adoptRefused(b, req.Name, id)
	}
	e.release(g)
	e.adoptRefused(b, req.Name, req.Lease)
	e.held(b, other.Name)
	e.release(next)
}

func adoptWaiter(e *env) {
	a, b := e.open(), e.open()
	g := e.try(a, e.name("deploy"))
	req := e.request(e.name("deploy"))
	w := e.wait(b, req)
	e.adoptRefused(a, req.Name, req.Lease)
	w.waits()
	e.release(g)
	e.release(w.granted(e.h.Slack))
}

func adoptLate(e *env) {
	a, b := e.open(), e.open()
	req := e.short(e.name("deploy"))
	g := e.adopt(b, req, e.tryReq(a, req))
	e.expire()
	e.over(req.Name, 0)
	_, err := g.Renew(e.ctx, e.h.TTL)
	e.lost("late Renew of an adopted grant", err)
	e.adoptRefused(b, req.Name, req.Lease)
	e.free(a, req.Name)
	next := e.try(a, req.Name)
	_, err = g.Renew(e.ctx, e.h.TTL)
	e.lost("late Renew of an adopted grant with a successor", err)
	e.release(next)
	e.free(b, req.Name)
}

// adoptSuccessor: the next lease is one of the same participant, with the same TTL, so that
// the store may keep it where it had the first.
func adoptSuccessor(e *env) {
	a, b, c := e.open(), e.open(), e.open()
	req := e.request(e.name("deploy"))
	first := e.tryReq(a, req)
	late, later := e.adopt(b, req, first), e.adopt(c, req, first)
	e.release(first)
	next := e.try(a, req.Name)
	_, err := late.Renew(e.ctx, e.h.TTL)
	e.lost("late Renew of an adopted grant", err)
	e.lost("late Release of an adopted grant", late.Release(e.ctx))
	e.held(b, req.Name)
	e.release(next)
	e.lost("late Release of an adopted grant on a free name", later.Release(e.ctx))
	e.free(b, req.Name)
}

func adoptBroken(e *env) {
	a, b := e.open(), e.open()
	req := e.request(e.name("deploy"))
	first := e.tryReq(a, req)
	g := e.adopt(b, req, first)
	e.letGo(first)
	if err := e.breakLease(b, req.Name, req.Lease); err != nil {
		e.Fatalf("Break = %v; want nil", err)
	}
	_, err := g.Renew(e.ctx, e.long())
	e.toldBy(err)
	e.lost("Release of a broken grant", g.Release(e.ctx))
	e.free(b, req.Name)
}

// adoptOne renews and releases one lease of several that are held together, by its id.
func (e *env) adoptOne(ask func(string) *driver.Request) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	req, other := e.brief(ask(name)), ask(name)
	first, second := e.tryReq(a, req), e.tryReq(a, other)
	g := e.adopt(b, req, first)
	e.release(second)
	e.outlasts(g)
	e.held(b, name)
	second = e.tryReq(a, ask(name))
	e.release(g)
	e.held(b, name)
	_, err := g.Renew(e.ctx, e.h.TTL)
	e.ended("Renew of an adopted grant after Release", err)
	e.adoptRefused(b, name, req.Lease)
	e.release(second)
	e.free(b, name)
}
