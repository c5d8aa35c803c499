// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

var downgrader = []string{"Downgrader"}

var downgradeTests = []Test{
	{Name: "downgrade-lets-readers-in-and-keeps-writers-out", Needs: downgrader, run: downgradeLets},
	{Name: "downgrade-wakes-readers-up-to-the-first-writer", Needs: []string{"Downgrader", "Queuer", "FIFO"}, run: downgradeWakes},
	{Name: "downgrade-grants-another-lease", Needs: downgrader, run: downgradeGrants},
	{Name: "downgrade-after-the-end-never-revives", Needs: downgrader, run: downgradeEnded},
	{Name: "late-downgrade-never-revives", Needs: []string{"Downgrader", "Expiry"}, run: downgradeLate},
	{Name: "downgrade-begins-a-ttl", Needs: []string{"Downgrader", "Expiry"}, run: downgradeBegins},
	{Name: "broken-lease-is-that-of-the-downgrade", Needs: []string{"Downgrader", "Inspector"}, run: downgradeBroken},
}

func downgradeLets(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	for range 2 {
		g := e.try(a, name)
		e.refused(b, e.reader(name))
		g = e.downgrade(g, e.reader(name))
		e.held(b, name)
		reader := e.tryReq(b, e.reader(name))
		e.held(a, name)
		e.release(g)
		e.held(a, name)
		e.release(reader)
	}
	e.free(a, name)
}

func downgradeWakes(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	ws := e.waiting(e.reader(name), e.reader(name), e.request(name), e.reader(name))
	g = e.downgrade(g, e.reader(name))
	held := []driver.Grant{ws[0].granted(e.h.Slack), g, ws[1].granted(e.h.Slack)}
	e.grantedInSteps(held, ws[2:3], ws[3:])
	e.free(e.open(), name)
}

// downgradeGrants checks that the shared lease has nothing of the exclusive one, which has ended
// and tells nobody of that.
func downgradeGrants(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	old := e.try(a, name)
	if n, ok := old.(driver.Notifier); ok {
		n.OnLost(func(err error) { e.Errorf("OnLost of a grant that was downgraded: %v", err) })
	}
	last := e.last(old)
	g := e.downgrade(old, e.reader(name))
	last = e.beyond(last, "the lease in place of the exclusive one", g)
	_, err := old.Renew(e.ctx, e.h.TTL)
	e.ended("Renew after Downgrade", err)
	_, err = old.(driver.Downgrader).Downgrade(e.ctx, e.reader(name))
	e.ended("a second Downgrade", err)
	if err := old.Release(e.ctx); err != nil {
		e.Errorf("Release after Downgrade = %v; want nil", err)
	}
	e.held(b, name)
	if a.Guarantees().Expiry {
		e.renew(g, e.h.TTL)
	}
	reader := e.tryReq(b, e.reader(name))
	last = e.beyond(last, "a reader after it", reader)
	e.release(g)
	e.held(a, name)
	e.release(reader)
	writer := e.try(b, name)
	e.beyond(last, "the next writer", writer)
	e.release(writer)
}

func downgradeEnded(e *env) {
	b, name := e.open(), e.name("deploy")
	g := e.try(e.open(), name)
	e.release(g)
	downgrade := func(what string) {
		shared, err := g.(driver.Downgrader).Downgrade(e.ctx, e.reader(name))
		e.ended(what, err)
		if shared != nil {
			e.release(shared)
		}
	}
	downgrade("Downgrade after Release")
	next := e.try(b, name)
	downgrade("Downgrade after Release, with a successor")
	e.refused(e.open(), e.reader(name))
	e.release(next)
	e.free(b, name)
}

func downgradeLate(e *env) {
	old, b, name := e.expired()
	_, err := old.(driver.Downgrader).Downgrade(e.ctx, e.reader(name))
	e.lost("Downgrade of an expired grant", err)
	e.free(b, name)
	// Another one, as that has heard now that it is lost.
	old, b, name = e.expired()
	g := e.try(b, name)
	_, err = old.(driver.Downgrader).Downgrade(e.ctx, e.reader(name))
	e.lost("Downgrade of an expired grant with a successor", err)
	e.refused(e.open(), e.reader(name))
	e.release(g)
	e.free(b, name)
}

// downgradeBegins checks that the TTL of the shared lease is its own: a short one ends, although
// that of the exclusive lease goes on.
func downgradeBegins(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	g := e.downgrade(e.tryReq(a, e.request(name)), e.brief(e.reader(name)))
	reader := e.tryReq(b, e.reader(name))
	e.expire()
	e.over(name, 1)
	_, err := g.Renew(e.ctx, e.long())
	e.lost("Renew of a lease that has expired after Downgrade", err)
	e.held(b, name)
	e.release(reader)
	e.free(b, name)
}

func downgradeBroken(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	before, req := e.request(name), e.reader(name)
	g := e.downgrade(e.tryReq(a, before), req)
	e.letGo(g)
	if h := e.inspect(b, name).Holders; len(h) != 1 || !h[0].Shared || h[0].Lease != req.Lease || h[0].Token != driver.Token(g.Token()) {
		e.Errorf("Inspect shows the holders %+v after Downgrade; want the shared lease", h)
	}
	reader := e.tryReq(b, e.reader(name))
	if h := e.inspect(b, name).Holders; len(h) != 2 || !h[0].Shared || !h[1].Shared {
		e.Errorf("Inspect shows the holders %+v; want two that share", h)
	}
	if err := e.breakLease(b, name, before.Lease); !errors.Is(err, driver.ErrHeld) {
		e.Errorf("Break of the lease that was downgraded = %v; want ErrHeld", err)
	}
	if err := e.breakLease(b, name, req.Lease); err != nil {
		e.Fatalf("Break of the lease in its place = %v; want nil", err)
	}
	e.held(a, name)
	e.release(reader)
	e.free(a, name)
}
