// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var breakTests = []Test{
	{Name: "break-ends-the-lease", Needs: inspector, run: breakEnds},
	{Name: "break-with-a-wrong-id-breaks-nothing", Needs: inspector, run: breakWrongID},
	{Name: "break-spares-the-successor", Needs: inspector, run: breakSuccessor},
	{Name: "broken-holder-learns-who-and-why", Needs: []string{"Inspector", "Notifier"}, run: breakTells},
	{Name: "broken-lease-cannot-be-renewed", Needs: []string{"Inspector", "Expiry"}, run: breakRenew},
	{Name: "loss-is-told-at-most-once", Needs: []string{"Inspector", "Notifier"}, run: lossOnce},
	{Name: "no-loss-is-told-after-release", Needs: []string{"Inspector", "Notifier"}, run: noLossAfterRelease},
}

const breakWhy = "it hangs since noon"

var breaker = &driver.Holder{Who: "the operator"}

// breakLease ends a lease. Where only the victim can let go, it must be told by
// letGo before.
func (e *env) breakLease(d driver.Driver, name, lease string) error {
	ctx, cancel := context.WithTimeout(e.ctx, e.long())
	defer cancel()
	return d.(driver.Inspector).Break(ctx, name, lease, breaker, breakWhy)
}

// breakHolder ends the lease that holds name now.
func (e *env) breakHolder(d driver.Driver, name string) {
	e.Helper()
	info := e.inspect(d, name)
	if len(info.Holders) != 1 {
		e.inTime(name, nil)
		e.Fatalf("Inspect(%q) shows %d holders; want one", name, len(info.Holders))
	}
	if err := e.breakLease(d, name, info.Holders[0].Lease); err != nil {
		e.inTime(name, err)
		e.Fatalf("Break of the holder = %v; want nil", err)
	}
}

// letGo makes the holder of g let go when it is asked to, as package pawl does
// with a lost lease, and returns a count of how often it was told, and a channel
// that gets the error.
func (e *env) letGo(g driver.Grant) (*atomic.Int32, <-chan error) {
	told, calls := make(chan error, 10), new(atomic.Int32)
	if n, ok := g.(driver.Notifier); ok {
		n.OnLost(func(err error) {
			calls.Add(1)
			g.Release(e.ctx)
			told <- err
		})
	}
	return calls, told
}

func breakEnds(e *env) {
	a, b, c := e.open(), e.open(), e.open()
	name := e.name("deploy")
	old := e.try(a, name)
	e.letGo(old)
	e.breakHolder(b, name)
	g := e.try(b, name)
	if err := old.Release(e.ctx); err != nil {
		e.ended("Release of a broken grant", err)
	}
	e.held(c, name)
	e.release(g)
	e.free(c, name)
}

func breakWrongID(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	if err := e.breakLease(b, name, "no such lease"); !errors.Is(err, driver.ErrReleased) {
		e.Errorf("Break of a free name = %v; want ErrReleased", err)
	}
	g := e.try(a, name)
	calls, _ := e.letGo(g)
	for _, id := range []string{"no such lease", "", "*"} {
		if err := e.breakLease(b, name, id); !errors.Is(err, driver.ErrHeld) {
			e.Errorf("Break with the id %q = %v; want ErrHeld", id, err)
		}
	}
	e.held(b, name)
	e.pause()
	if n := calls.Load(); n != 0 {
		e.Errorf("the holder was told of %d losses; want none", n)
	}
	e.release(g)
}

func breakSuccessor(e *env) {
	a, b := e.open(), e.open()
	req := e.request(e.name("deploy"))
	e.release(e.tryReq(a, req))
	if err := e.breakLease(b, req.Name, req.Lease); !errors.Is(err, driver.ErrReleased) {
		e.Errorf("Break of a released lease = %v; want ErrReleased", err)
	}
	g := e.try(a, req.Name)
	if err := e.breakLease(b, req.Name, req.Lease); !errors.Is(err, driver.ErrHeld) {
		e.Errorf("Break of a released lease with a successor = %v; want ErrHeld", err)
	}
	e.held(b, req.Name)
	e.release(g)
}

func breakTells(e *env) {
	g := e.try(e.open(), e.name("deploy"))
	_, told := e.letGo(g)
	e.breakHolder(e.open(), e.name("deploy"))
	e.told(told)
}

// told waits for the news of a broken lease, and checks them.
func (e *env) told(told <-chan error) {
	e.Helper()
	select {
	case err := <-told:
		e.toldBy(err)
	case <-time.After(e.limit(e.h.Slack)):
		e.Fatal("the holder was not told")
	}
}

func (e *env) toldBy(err error) {
	e.Helper()
	var lost *driver.LostError
	if !errors.As(err, &lost) || lost.Reason != driver.Broken || lost.By == nil ||
		lost.By.Who != breaker.Who || lost.Why != breakWhy {
		e.Errorf("the holder learnt %v; want a *LostError: broken by %v: %q", err, breaker, breakWhy)
	}
}

func breakRenew(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	g := e.try(a, name)
	e.letGo(g)
	e.breakHolder(b, name)
	_, err := g.Renew(e.ctx, e.long())
	e.ended("Renew of a broken grant", err)
	e.free(b, name)
}

func lossOnce(e *env) {
	name := e.name("deploy")
	req := e.short(name)
	g := e.tryReq(e.open(), req)
	calls, told := e.letGo(g)
	b := e.open()
	e.breakHolder(b, name)
	e.told(told)
	if err := e.breakLease(b, name, req.Lease); !errors.Is(err, driver.ErrReleased) {
		e.Errorf("second Break = %v; want ErrReleased", err)
	}
	e.expire()
	g.Release(e.ctx)
	e.free(b, name)
	e.pause()
	if n := calls.Load(); n != 1 {
		e.Errorf("the holder was told %d times; want once", n)
	}
}

func noLossAfterRelease(e *env) {
	a, b := e.open(), e.open()
	req := e.short(e.name("deploy"))
	g := e.tryReq(a, req)
	calls, _ := e.letGo(g)
	e.release(g)
	e.breakLease(b, req.Name, req.Lease)
	e.expire()
	e.free(b, req.Name)
	e.pause()
	if n := calls.Load(); n != 0 {
		e.Errorf("the holder was told of %d losses after Release; want none", n)
	}
}
