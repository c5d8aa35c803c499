// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"math"
	"slices"

	"github.com/pawl-go/pawl/driver"
)

var reserver = []string{"Reserver"}

// Tests of grants with tokens set aside. A waiter that takes over the grant works with
// one of those. So no other grant may ever get it, whatever has ended this one.
var reserveTests = []Test{
	{Name: "reserved-tokens-go-to-no-other-grant", Needs: reserver, run: reservedReleased},
	{Name: "reserved-tokens-do-not-change", Needs: reserver, run: reservedConstant},
	{Name: "repeated-attempt-keeps-the-reserved-tokens", Needs: reserver, run: reservedRepeated},
	{Name: "reserved-tokens-go-to-no-waiter", Needs: []string{"Reserver", "Queuer"}, run: reservedQueue},
	{Name: "reserved-tokens-go-to-no-reader-and-no-slot", Needs: []string{"Reserver", "Shared", "Slots"}, run: reservedKinds},
	{Name: "reserved-tokens-stay-so-after-break", Needs: []string{"Reserver", "Inspector"}, run: reservedBreak},
	{Name: "reserved-tokens-stay-so-after-expiry", Needs: []string{"Reserver", "Expiry"}, run: reservedExpiry},
	{Name: "reserved-tokens-stay-so-after-a-crash", Needs: []string{"Reserver", "Crash"}, run: reservedCrash},
	{Name: "reserved-tokens-stay-so-after-a-restart", Needs: []string{"Reserver", "Restart"}, run: reservedRestart},
	{Name: "inspect-shows-the-first-of-reserved-tokens", Needs: []string{"Reserver", "Inspector"}, run: reservedShown},
}

// last returns the last of the tokens of g: the greatest one that a lease of this grant
// may have.
func (e *env) last(g driver.Grant) uint64 {
	e.Helper()
	r, ok := g.(driver.Reserver)
	if !ok {
		return g.Token()
	}
	n, _ := r.Reserved()
	if n > math.MaxUint64-g.Token() {
		e.Fatalf("%d tokens are set aside after token %d; there are not so many", n, g.Token())
	}
	return g.Token() + n
}

// beyond checks that the token of g is beyond last, and returns the last of g.
func (e *env) beyond(last uint64, what string, g driver.Grant) uint64 {
	e.Helper()
	if g.Token() <= last {
		e.Errorf("%s has token %d; want one after %d, the last that was set aside before", what, g.Token(), last)
	}
	return e.last(g)
}

func reservedReleased(e *env) {
	a, b, name, last := e.open(), e.open(), e.name("deploy"), uint64(0)
	for i := range 8 {
		g := e.try([]driver.Driver{a, a, b}[i%3], name)
		last = e.beyond(last, "the next grant", g)
		e.release(g)
	}
}

func reservedConstant(e *env) {
	name := e.name("deploy")
	g := e.try(e.open(), name)
	last := e.last(g)
	b := e.open()
	same := func(when string) {
		e.Helper()
		if now := e.last(g); now != last {
			e.Errorf("%s the last token is %d; it was %d", when, now, last)
		}
	}
	same("asked again,")
	if b.Guarantees().Expiry {
		e.renew(g, e.long())
		same("after Renew")
	}
	e.held(b, name)
	same("after another's attempt")
	e.release(g)
	same("after Release")
}

// reservedRepeated is what happens after a lost answer: the grant may have been
// passed on with one of the first answer's tokens already.
func reservedRepeated(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	req := e.request(name)
	g := e.tryReq(a, req)
	last := e.last(g)
	for range 3 {
		again, err := a.TryAcquire(e.ctx, req)
		if errors.Is(err, driver.ErrHeld) {
			break
		}
		if err != nil || again == nil {
			e.Fatalf("repeated TryAcquire = %s, %v; want a grant or ErrHeld", show(again), err)
		}
		if now := e.last(again); again.Token() <= last && (again.Token() != g.Token() || now < last) {
			e.Errorf("a repeated attempt has the tokens %d to %d after %d to %d; want those at least, or others after them",
				again.Token(), now, g.Token(), last)
		}
		g, last = again, e.last(again)
	}
	e.release(g)
	g = e.try(b, name)
	e.beyond(last, "the next grant", g)
	e.release(g)
}

func reservedQueue(e *env) {
	g, ws := e.inLine(e.name("deploy"), 3)
	last := e.last(g)
	e.release(g)
	for range ws {
		e.eventually(e.h.Slack, func() error { // without FIFO any may be the next
			i := slices.IndexFunc(ws, func(w *call) bool { return closed(w.done, 0) })
			if i < 0 {
				return errors.New("no waiter got the name")
			}
			g, ws = ws[i].granted(0), slices.Delete(ws, i, i+1)
			return nil
		})
		last = e.beyond(last, "a waiter", g)
		e.release(g)
	}
	g = e.try(e.open(), e.name("deploy"))
	e.beyond(last, "who comes after the waiters", g)
	e.release(g)
}

// reservedKinds: only exclusive leases are passed on, but all kinds share one sequence
// of tokens.
func reservedKinds(e *env) {
	a, b, name, last := e.open(), e.open(), e.name("deploy"), uint64(0)
	for range 2 {
		g := e.try(a, name)
		last = e.beyond(last, "a writer", g)
		e.release(g)
		for _, ask := range []func() *driver.Request{
			func() *driver.Request { return e.reader(name) },
			func() *driver.Request { return e.slot(name, 2) },
		} {
			first, second := e.tryReq(b, ask()), e.tryReq(a, ask())
			last = e.beyond(last, "the first who shares", first)
			last = e.beyond(last, "the second who shares", second)
			e.release(first)
			e.release(second)
		}
	}
}

func reservedBreak(e *env) {
	a, b, name, last := e.open(), e.open(), e.name("deploy"), uint64(0)
	for range 3 {
		g := e.try(a, name)
		last = e.beyond(last, "the grant after a broken one", g)
		e.letGo(g)
		e.breakHolder(b, name)
	}
	g := e.try(b, name)
	e.beyond(last, "the grant after a broken one", g)
	e.release(g)
}

func reservedExpiry(e *env) {
	old, _, name := e.expired()
	g := e.try(e.open(), name)
	e.beyond(e.last(old), "the grant after one that has expired", g)
	e.release(g)
}

func reservedCrash(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	last := e.last(e.tryReq(a, e.short(name)))
	g := e.soonFree(b, name, e.crash(a))
	e.beyond(last, "the grant after a crash of the holder", g)
	e.release(g)
}

func reservedRestart(e *env) {
	a, name := e.open(), e.name("deploy")
	g := e.recovered(a, name)
	last := e.last(g)
	e.release(g)
	e.store.Restart(e.TB)
	g = e.recovered(a, name)
	e.beyond(last, "the grant after a restart", g)
	e.release(g)
}

// reservedShown: the store does not know which lease has the grant now.
func reservedShown(e *env) {
	b, name := e.open(), e.name("deploy")
	g := e.try(e.open(), name)
	info := e.inspect(b, name)
	if len(info.Holders) != 1 || info.Holders[0].Token != driver.Token(g.Token()) {
		e.Errorf("Inspect shows the holders %+v; want one with token %d", info.Holders, g.Token())
	}
	if last := e.last(g); info.Token != 0 && (info.Token < driver.Token(g.Token()) || info.Token > driver.Token(last)) {
		e.Errorf("Inspect shows %d as the largest token; want one from %d to %d", info.Token, g.Token(), last)
	}
	_, err := b.TryAcquire(e.ctx, e.request(name))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Info == nil || len(held.Info.Holders) != 1 || held.Info.Holders[0].Token != driver.Token(g.Token()) {
		e.Errorf("TryAcquire of another = %v; want a *HeldError with token %d", err, g.Token())
	}
	e.release(g)
}
