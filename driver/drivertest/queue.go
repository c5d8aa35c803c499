// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
)

var (
	queuer = []string{"Queuer"}
	fifo   = []string{"Queuer", "FIFO"}
)

var queueTests = []Test{
	{Name: "waiter-gets-the-name-on-release", Needs: queuer, run: waiterRelease},
	{Name: "waiter-of-a-free-name-need-not-wait", Needs: queuer, run: waiterFree},
	{Name: "waiters-are-served-in-order", Needs: fifo, run: waitersInOrder},
	{Name: "newcomer-does-not-overtake", Needs: fifo, run: noOvertaking},
	{Name: "cancelled-waiter-leaves-no-ghost", Needs: queuer, run: noGhost},
	{Name: "cancelled-waiters-leave-the-order", Needs: fifo, run: cancelledInOrder},
	{Name: "cancelled-waiter-of-a-held-name-returns-at-once", Needs: queuer, run: cancelReturns},
	{Name: "grant-in-the-instant-of-cancel-is-put-back", Needs: queuer, run: cancelInstant},
	{Name: "waiter-wakes-on-expiry", Needs: []string{"Queuer", "Expiry"}, run: waiterExpiry},
	{Name: "waiter-waits-while-the-holder-renews", Needs: []string{"Queuer", "Expiry"}, run: waiterRenewed},
	{Name: "grant-to-a-waiter-has-its-full-ttl", Needs: []string{"Queuer", "Expiry"}, run: waiterFullTTL},
	{Name: "waiter-wakes-on-break", Needs: []string{"Queuer", "Inspector"}, run: waiterBreak},
}

func waiterRelease(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	g := e.try(a, name)
	w := e.wait(b, e.request(name))
	w.waits()
	e.release(g)
	next := w.granted(e.h.Slack)
	if next.Token() <= g.Token() && b.Guarantees().Fencing {
		e.Errorf("the waiter's token is %d after %d; want a greater one", next.Token(), g.Token())
	}
	e.held(a, name)
	e.release(next)
	e.free(a, name)
}

func waiterFree(e *env) {
	w := e.startWait(e.open(), e.request(e.name("deploy")))
	e.release(w.granted(e.h.Slack))
	e.free(e.open(), e.name("deploy"))
}

// inLine has the name held and n waiters stand in line for it, each of another
// participant.
func (e *env) inLine(name string, n int) (driver.Grant, []*call) {
	e.Helper()
	g := e.try(e.open(), name)
	ws := make([]*call, n)
	for i := range ws {
		ws[i] = e.wait(e.open(), e.request(name))
		ws[i].waits()
	}
	return g, ws
}

func waitersInOrder(e *env) {
	g, ws := e.inLine(e.name("deploy"), 8)
	e.servedInOrder(g, ws)
}

// servedInOrder releases g and then each waiter's grant, and checks that each
// goes to the next of ws.
func (e *env) servedInOrder(g driver.Grant, ws []*call) {
	e.Helper()
	for i, w := range ws {
		e.release(g)
		g = w.granted(e.h.Slack)
		e.pause()
		for _, later := range ws[i+1:] {
			later.waits()
		}
	}
	e.release(g)
}

func noOvertaking(e *env) {
	name := e.name("deploy")
	g, ws := e.inLine(name, 2)
	late := e.open()
	e.release(g)
	e.held(late, name) // handed on, or kept for the first in line
	g = ws[0].granted(e.h.Slack)
	e.held(late, name)
	e.release(g)
	e.release(ws[1].granted(e.h.Slack))
	e.free(late, name)
}

func noGhost(e *env) {
	name := e.name("deploy")
	for range 3 {
		g, ws := e.inLine(name, 2)
		ws[0].cancelled()
		e.release(g)
		e.release(ws[1].granted(e.h.Slack))
	}
	g, ws := e.inLine(name, 1)
	ws[0].cancelled()
	e.release(g)
	e.free(e.open(), name)
}

func cancelledInOrder(e *env) {
	for _, gone := range []int{0, 2, 4} { // head, middle, tail
		g, ws := e.inLine(e.name("deploy"), 5)
		ws[gone].cancelled()
		e.servedInOrder(g, append(ws[:gone:gone], ws[gone+1:]...))
	}
}

func cancelReturns(e *env) {
	g, ws := e.inLine(e.name("deploy"), 1)
	ws[0].cancelled()
	ctx, cancel := context.WithTimeout(e.ctx, e.h.Pause)
	defer cancel()
	_, err := e.open().(driver.Queuer).Acquire(ctx, e.request(e.name("deploy")))
	if !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("Acquire = %v; want context.DeadlineExceeded", err)
	}
	e.release(g)
}

// cancelInstant lets release and cancel race, again and again. However the race ends,
// the holder of the name must know that it is the holder.
func cancelInstant(e *env) {
	a, b, c := e.open(), e.open(), e.open()
	name := e.name("deploy")
	for i := range e.rounds() {
		g := e.try(a, name)
		w := e.wait(b, e.request(name))
		switch i % 3 {
		case 0:
			w.cancel()
			e.release(g)
		case 1:
			e.release(g)
			w.cancel()
		case 2:
			e.calls.Go(w.cancel)
			e.release(g)
		}
		w.returned(e.h.Slack)
		if w.err != nil && !errors.Is(w.err, context.Canceled) {
			e.Fatalf("Acquire = %v; want a grant or the context's error", w.err)
		}
		if w.grant != nil {
			e.release(w.grant)
		} else if w.err == nil {
			e.Fatal("Acquire = nil, nil")
		}
		// Well before the TTL of the waiter's attempt has passed.
		e.release(e.wait(c, e.request(name)).granted(e.h.Slack))
	}
}

// wakes checks that w is granted the name after the instant free, not much
// later.
func (e *env) wakes(w *call, free driver.Instant) {
	e.Helper()
	g := w.granted(free.Sub(driver.Now()) + e.h.TTL + e.h.Slack)
	if early := free.Sub(w.at); early > driver.Drift(e.h.TTL) {
		e.Errorf("the waiter got the name %v too early", early)
	}
	if late := w.at.Sub(free); late > e.h.Slack {
		e.again("the waiter got the name %v too late", late)
	}
	e.release(g)
}

func waiterExpiry(e *env) {
	g := e.tryReq(e.open(), e.short(e.name("deploy")))
	d := e.open()
	first := e.wait(d, e.short(e.name("deploy")))
	var second *call
	if d.Guarantees().FIFO { // else the second could be the first
		second = e.wait(e.open(), e.request(e.name("deploy")))
	}
	next := first.granted(e.h.TTL + e.h.Slack)
	if early := g.Since().Add(e.h.TTL).Sub(first.at); early > driver.Drift(e.h.TTL) {
		e.Errorf("the waiter got the name %v before it had expired", early)
	}
	if second == nil {
		second = e.wait(e.open(), e.request(e.name("deploy")))
	}
	// The second in line must watch the clock now.
	e.wakes(second, next.Since().Add(e.h.TTL))
}

func waiterRenewed(e *env) {
	g := e.tryReq(e.open(), e.short(e.name("deploy")))
	w := e.wait(e.open(), e.request(e.name("deploy")))
	var since driver.Instant
	for range 6 {
		sleepUntil(g.Since().Add(e.h.TTL / 2))
		since = e.renew(g, e.h.TTL)
		sleepUntil(since.Add(e.h.TTL / 2))
		w.waits()
	}
	e.wakes(w, since.Add(e.h.TTL))
}

// waiterFullTTL: the TTL begins with the grant, not with the waiting.
func waiterFullTTL(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	w := e.wait(e.open(), e.short(name))
	e.expire()
	e.release(g)
	next := w.granted(e.h.Slack)
	if age := w.at.Sub(next.Since()); age > e.h.TTL/2 {
		e.again("the grant was %v old when it came", age)
	}
	sleepUntil(next.Since().Add(e.h.TTL / 2))
	e.renew(next, e.h.TTL)
	e.release(next)
}

func waiterBreak(e *env) {
	g, ws := e.inLine(e.name("deploy"), 1)
	e.letGo(g)
	e.breakHolder(e.open(), e.name("deploy"))
	e.release(ws[0].granted(e.h.Slack))
}
