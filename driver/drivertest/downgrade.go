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
	{Name: "downgrade-keeps-token-and-ttl", Needs: downgrader, run: downgradeKeeps},
	{Name: "repeated-downgrade-is-harmless", Needs: downgrader, run: downgradeTwice},
	{Name: "downgrade-after-release-never-revives", Needs: downgrader, run: downgradeReleased},
	{Name: "late-downgrade-never-revives", Needs: []string{"Downgrader", "Expiry"}, run: downgradeLate},
	{Name: "downgraded-lease-expires", Needs: []string{"Downgrader", "Expiry"}, run: downgradeExpires},
	{Name: "downgraded-lease-can-be-broken", Needs: []string{"Downgrader", "Inspector"}, run: downgradeBroken},
}

func downgradeLets(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	for range 2 {
		g := e.try(a, name)
		e.refused(b, e.reader(name))
		e.downgrade(g)
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
	e.downgrade(g)
	held := []driver.Grant{ws[0].granted(e.h.Slack), g, ws[1].granted(e.h.Slack)}
	e.grantedInSteps(held, ws[2:3], ws[3:])
	e.free(e.open(), name)
}

func downgradeKeeps(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	g := e.tryReq(a, e.short(name))
	token := g.Token()
	longer := false
	if a.Guarantees().Expiry {
		_, err := g.Renew(e.ctx, e.long())
		if longer = err == nil; !longer && !errors.Is(err, errors.ErrUnsupported) {
			e.inTime(g.Token(), err)
			e.Fatalf("Renew = %v; want nil", err)
		}
	}
	e.downgrade(g)
	if g.Token() != token {
		e.Errorf("Downgrade made token %d of %d; want the same", g.Token(), token)
	}
	if a.Guarantees().Expiry && !longer {
		e.expireBut(g)
	} else {
		e.expire() // the TTL that it was granted with
	}
	e.held(b, name)
	if a.Guarantees().Expiry {
		e.renew(g, e.h.TTL)
	}
	reader := e.tryReq(b, e.reader(name))
	if reader.Token() <= token && reader.Token() != 0 {
		e.Errorf("the next token is %d after %d; want a greater one", reader.Token(), token)
	}
	e.release(g)
	e.release(reader)
	e.free(b, name)
}

// downgradeTwice is what happens after a lost answer.
func downgradeTwice(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	g := e.try(a, name)
	e.downgrade(g)
	e.downgrade(g)
	e.held(b, name)
	reader := e.tryReq(b, e.reader(name))
	e.downgrade(g)
	e.release(g)
	e.held(a, name)
	e.release(reader)
	e.free(a, name)
}

func downgradeReleased(e *env) {
	b, name := e.open(), e.name("deploy")
	g := e.try(e.open(), name)
	e.release(g)
	e.ended("Downgrade after Release", g.(driver.Downgrader).Downgrade(e.ctx))
	next := e.try(b, name)
	e.ended("Downgrade after Release, with a successor", g.(driver.Downgrader).Downgrade(e.ctx))
	e.refused(e.open(), e.reader(name))
	e.release(next)
	e.free(b, name)
}

func downgradeLate(e *env) {
	old, b, name := e.expired()
	e.lost("Downgrade of an expired grant", old.(driver.Downgrader).Downgrade(e.ctx))
	e.free(b, name)
	// Another one, as that has heard now that it is lost.
	old, b, name = e.expired()
	g := e.try(b, name)
	e.lost("Downgrade of an expired grant with a successor", old.(driver.Downgrader).Downgrade(e.ctx))
	e.refused(e.open(), e.reader(name))
	e.release(g)
	e.free(b, name)
}

func downgradeExpires(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	g := e.tryReq(a, e.short(name))
	e.downgrade(g)
	reader := e.tryReq(b, e.reader(name))
	e.expire()
	e.over(name, 1)
	_, err := g.Renew(e.ctx, e.long())
	e.lost("Renew of a downgraded grant that has expired", err)
	e.held(b, name)
	e.release(reader)
	e.free(b, name)
}

func downgradeBroken(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	req := e.request(name)
	g := e.tryReq(a, req)
	e.letGo(g)
	e.downgrade(g)
	if h := e.inspect(b, name).Holders; len(h) != 1 || !h[0].Shared || h[0].Lease != req.Lease || h[0].Token != driver.Token(g.Token()) {
		e.Errorf("Inspect shows the holders %+v after Downgrade; want the same one, shared", h)
	}
	reader := e.tryReq(b, e.reader(name))
	if h := e.inspect(b, name).Holders; len(h) != 2 || !h[0].Shared || !h[1].Shared {
		e.Errorf("Inspect shows the holders %+v; want two that share", h)
	}
	if err := e.breakLease(b, name, req.Lease); err != nil {
		e.Fatalf("Break of a downgraded lease = %v; want nil", err)
	}
	e.held(a, name)
	e.release(reader)
	e.free(a, name)
}
