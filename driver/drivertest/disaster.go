// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Tests that need a hook of Store.
var disasterTests = []Test{
	{Name: "crash-frees-the-name", Needs: []string{"Crash"}, run: crashFrees},
	{Name: "token-grows-across-a-crash", Needs: []string{"Crash", "Fencing"}, run: crashToken},
	{Name: "waiter-wakes-on-crash-of-the-holder", Needs: []string{"Crash", "Queuer"}, run: crashWakes},
	{Name: "crashed-waiter-is-passed-over", Needs: []string{"Crash", "Queuer"}, run: crashedWaiter},
	{Name: "token-grows-across-a-restart", Needs: []string{"Restart", "Fencing"}, run: restartToken},
	{Name: "restart-does-not-end-a-trusted-lease", Needs: []string{"Restart"}, run: restartHeld},
	{Name: "waiter-outlives-a-restart", Needs: []string{"Restart", "Queuer"}, run: restartWaiter},
	{Name: "cut-off-participant-is-told-so", Needs: []string{"Cut"}, run: cutFails},
	{Name: "cut-off-holder-keeps-nobody-out-for-long", Needs: []string{"Cut", "Expiry"}, run: cutHolder},
}

// crash ends d and returns the time by which all of its leases of TTL
// Harness.TTL are over.
func (e *env) crash(d driver.Driver) time.Duration {
	e.store.Crash(e.TB, d)
	if d.Guarantees().Expiry {
		return e.h.TTL + e.h.Slack
	}
	return e.h.Slack
}

// soonFree waits until d can have name, at most for limit, and returns the grant.
func (e *env) soonFree(d driver.Driver, name string, limit time.Duration) (g driver.Grant) {
	e.Helper()
	e.eventually(limit, func() (err error) {
		g, err = e.retry(d, e.request(name))
		return err
	})
	return g
}

// retry is TryAcquire where the answer may be lost: what may have been recorded is undone.
func (e *env) retry(d driver.Driver, req *driver.Request) (driver.Grant, error) {
	g, err := d.TryAcquire(e.ctx, req)
	if err != nil && g != nil {
		if undone := g.Release(e.ctx); undone != nil {
			e.Logf("an attempt without an answer is not undone: %v", undone)
		}
		g = nil
	}
	return g, err
}

func crashFrees(e *env) {
	a, b := e.open(), e.open()
	kept := e.try(b, e.name("kept"))
	e.tryReq(a, e.short(e.name("deploy")))
	e.release(e.soonFree(b, e.name("deploy"), e.crash(a)))
	e.held(e.open(), e.name("kept"))
	e.release(kept)
}

func crashToken(e *env) {
	b, last := e.open(), uint64(0)
	for range 3 {
		a := e.open()
		token := e.tryReq(a, e.short(e.name("deploy"))).Token()
		g := e.soonFree(b, e.name("deploy"), e.crash(a))
		if token <= last || g.Token() <= token {
			e.Errorf("tokens %d, %d, %d around a crash; want them to grow", last, token, g.Token())
		}
		last = g.Token()
		e.release(g)
	}
}

func crashWakes(e *env) {
	a := e.open()
	e.tryReq(a, e.short(e.name("deploy")))
	w := e.wait(e.open(), e.request(e.name("deploy")))
	w.waits()
	e.release(w.granted(e.crash(a)))
}

func crashedWaiter(e *env) {
	dead := e.open()
	g := e.try(e.open(), e.name("deploy"))
	e.wait(dead, e.short(e.name("deploy")))
	w := e.wait(e.open(), e.request(e.name("deploy")))
	limit := e.crash(dead)
	e.release(g)
	e.release(w.granted(limit))
}

// passing returns a new attempt to get name for RestartTTL.
func (e *env) passing(name string) *driver.Request {
	req := e.request(name)
	req.TTL = e.h.restarts
	return req
}

// recovered waits until d can have name after a restart, and returns the grant.
func (e *env) recovered(d driver.Driver, name string) (g driver.Grant) {
	e.Helper()
	e.eventually(e.long()+e.h.Recovery, func() (err error) {
		g, err = e.retry(d, e.passing(name))
		return err
	})
	return g
}

func restartToken(e *env) {
	a, last := e.open(), uint64(0)
	for i := range 2 {
		g := e.recovered(a, e.name("deploy"))
		if g.Token() <= last {
			e.Errorf("token %d after %d and %d restarts; want a greater one", g.Token(), last, i)
		}
		last = g.Token()
		e.release(g)
		e.store.Restart(e.TB)
	}
}

// restartHeld: the holder trusts its lease, so the store must not give the name
// to another before the TTL is over, even if it has forgotten the lease.
func restartHeld(e *env) {
	a, b := e.open(), e.open()
	req := e.short(e.name("deploy"))
	g := e.tryReq(a, req)
	e.store.Restart(e.TB)
	trusted := g.Since().Add(req.TTL - driver.Drift(req.TTL))
	if !a.Guarantees().Expiry {
		e.refused(b, e.passing(req.Name))
		e.release(g)
		return
	}
	next := e.recovered(b, req.Name)
	if got := driver.Now(); got < trusted {
		e.Errorf("after a restart another got the name %v before the holder's deadline", trusted.Sub(got))
	}
	e.release(next)
}

func restartWaiter(e *env) {
	g := e.tryReq(e.open(), e.passing(e.name("deploy")))
	w := e.wait(e.open(), e.passing(e.name("deploy")))
	e.store.Restart(e.TB)
	e.eventually(e.long(), func() error {
		err := g.Release(e.ctx)
		if errors.Is(err, driver.ErrLost) {
			return nil
		}
		return err
	})
	e.release(w.granted(e.long() + e.h.Recovery))
}

func cutFails(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	e.free(a, name)
	e.store.Cut(e.TB, a)
	ctx, cancel := context.WithTimeout(e.ctx, e.h.TTL)
	defer cancel()
	g, err := a.TryAcquire(ctx, e.short(name))
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) && ctx.Err() == nil {
		e.Errorf("TryAcquire of a participant that is cut off = %v; want ErrUnavailable, ErrUncertain or the context's error", err)
	}
	e.release(e.soonFree(b, name, e.h.TTL+e.h.Slack)) // whatever arrived has expired
	e.store.Heal(e.TB, a)
	if g != nil {
		g.Release(e.ctx)
	}
	e.release(e.soonFree(a, name, e.h.TTL+e.h.Slack))
}

func cutHolder(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	old := e.tryReq(a, e.short(name))
	e.store.Cut(e.TB, a)
	ctx, cancel := context.WithTimeout(e.ctx, e.h.TTL/4)
	defer cancel()
	if _, err := old.Renew(ctx, e.h.TTL); err == nil || errors.Is(err, driver.ErrLost) {
		e.Errorf("Renew of a participant that is cut off = %v; want no answer", err)
	}
	g := e.soonFree(b, name, e.h.TTL+e.h.Slack)
	if early := old.Since().Add(e.h.TTL - driver.Drift(e.h.TTL)).Sub(driver.Now()); early > 0 {
		e.Errorf("the name came free %v before the deadline of the holder that was cut off", early)
	}
	e.store.Heal(e.TB, a)
	// The first attempts may fail with the old connection, although one of them may
	// have released the grant.
	answers := 0
	e.eventually(e.h.TTL+e.h.Slack, func() error {
		err := old.Release(e.ctx)
		if answers++; err == nil && answers > 1 || errors.Is(err, driver.ErrLost) {
			return nil
		}
		return fmt.Errorf("Release after the cut = %w; want ErrLost", err)
	})
	e.held(a, name)
	e.release(g)
}
