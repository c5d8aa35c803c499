// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var passTests = []Test{
	{Name: "pass-gives-a-greater-token", Needs: []string{"Passer", "Fencing"}, run: passToken},
	{Name: "pass-ends-the-old-grant-only", Needs: []string{"Passer"}, run: passEnds},
	{Name: "pass-does-not-lose-the-waiters", Needs: []string{"Passer", "Queuer"}, run: passWaiters},
	{Name: "pass-begins-a-ttl-of-its-own", Needs: []string{"Passer", "Expiry"}, run: passTTL},
	{Name: "pass-never-revives", Needs: []string{"Passer", "Expiry"}, run: passLate},
	{Name: "pass-after-release-fails", Needs: []string{"Passer"}, run: passReleased},
}

func (e *env) pass(g driver.Grant, req *driver.Request) driver.Grant {
	e.Helper()
	next, err := g.(driver.Passer).Pass(e.ctx, req)
	if err != nil || next == nil {
		e.Fatalf("Pass = %s, %v; want a grant", show(next), err)
	}
	return next
}

func passToken(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	for range 5 {
		next := e.pass(g, e.request(name))
		if next.Token() <= g.Token() {
			e.Fatalf("passed on with token %d after %d; want a greater one", next.Token(), g.Token())
		}
		g = next
	}
	e.release(g)
	last := g.Token()
	if g = e.try(e.open(), name); g.Token() <= last {
		e.Errorf("token %d after %d; want a greater one", g.Token(), last)
	}
	e.release(g)
}

func passEnds(e *env) {
	b, name := e.open(), e.name("deploy")
	old := e.try(e.open(), name)
	g := e.pass(old, e.request(name))
	e.held(b, name)
	if err := old.Release(e.ctx); err != nil {
		e.ended("Release of a passed grant", err)
	}
	if b.Guarantees().Expiry {
		_, err := old.Renew(e.ctx, e.long())
		e.ended("Renew of a passed grant", err)
	}
	if again, err := old.(driver.Passer).Pass(e.ctx, e.request(name)); err == nil {
		e.Errorf("second Pass of a grant = %s; want an error", show(again))
	}
	e.held(b, name)
	if b.Guarantees().Expiry {
		e.renew(g, e.long())
	}
	e.release(g)
	e.free(b, name)
}

func passWaiters(e *env) {
	name := e.name("deploy")
	g, ws := e.inLine(name, 2)
	for range 3 {
		g = e.pass(g, e.request(name))
		e.pause()
		ws[0].waits()
		ws[1].waits()
	}
	e.release(g)
	first, second := ws[0], ws[1]
	select { // without FIFO either may be the first
	case <-second.done:
		first, second = second, first
	case <-first.done:
	case <-time.After(e.h.Slack):
		e.Fatal("no waiter got the name that was passed on and then released")
	}
	e.release(first.granted(e.h.Slack))
	e.release(second.granted(e.h.Slack))
	e.free(e.open(), name)
}

func passTTL(e *env) {
	b, name := e.open(), e.name("deploy")
	g := e.pass(e.tryReq(e.open(), e.short(name)), e.request(name))
	e.expire()
	e.held(b, name) // beyond the TTL of the first
	before := driver.Now()
	g = e.pass(g, e.short(name))
	e.within("Pass", before, g.Since())
	e.held(b, name)
	e.expire()
	e.free(b, name)
}

func passLate(e *env) {
	old, _, name := e.expired()
	b := e.open()
	_, err := old.(driver.Passer).Pass(e.ctx, e.request(name))
	e.lost("Pass of an expired grant", err)
	g := e.try(b, name)
	_, err = old.(driver.Passer).Pass(e.ctx, e.request(name))
	e.lost("Pass of an expired grant with a successor", err)
	e.release(g)
	e.free(b, name)
}

func passReleased(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	e.release(g)
	if next, err := g.(driver.Passer).Pass(e.ctx, e.request(name)); err == nil || errors.Is(err, driver.ErrHeld) {
		e.Errorf("Pass after Release = %s, %v; want an error that says so", show(next), err)
	}
	e.free(e.open(), name)
}
