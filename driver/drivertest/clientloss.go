// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Tests of how a client loses a lease.
var clientLossTests = []Test{
	{Name: "cut-off-client-stops-before-the-next-begins", Needs: expiry, run: lossCut},
	{Name: "trust-counts-from-the-question-not-the-answer", Needs: expiry, run: lossSlowAnswer},
	{Name: "really-cut-off-client-stops-before-the-next-begins", Needs: []string{"Expiry", "Cut"}, run: lossRealCut},
	{Name: "client-with-failing-renewals-ends-at-its-deadline", Needs: expiry, run: lossFailing},
	{Name: "client-with-hanging-renewals-ends-at-its-deadline", Needs: expiry, run: lossHanging},
	{Name: "client-with-late-renewals-ends-at-its-deadline", Needs: expiry, run: lossLate},
	{Name: "client-with-lost-renewal-answers-ends-at-its-deadline", Needs: expiry, run: lossUnanswered},
	{Name: "client-outlives-a-short-outage", Needs: expiry, run: lossOutage},
	{Name: "client-bears-slow-renewals", Needs: expiry, run: lossSlow},
	{Name: "client-whose-lease-is-gone-hears-at-the-next-renewal", Needs: []string{"Expiry", "Inspector"}, run: lossGone},
	{Name: "client-of-a-broken-lease-learns-who-and-why", Needs: inspector, run: lossBroken},
	{Name: "release-after-loss-says-so-and-harms-nobody", Needs: expiry, run: lossRelease},
	{Name: "late-renewal-after-release-harms-nobody", Needs: expiry, run: lossLateRenewal},
	{Name: "do-ends-with-its-lease", Needs: expiry, run: lossDo},
}

// lossCut is the whole safety argument in one test: the client that is cut off
// has stopped when the other begins.
func lossCut(e *env) {
	a, f := e.faultyClient()
	e.stopsBefore(a, e.h.TTL, f.Cut)
}

// lossSlowAnswer: the store counts from when it was asked, so a client that
// counts from when it was answered trusts its lease for too long, by more than
// the allowance for drift.
func lossSlowAnswer(e *env) {
	for _, wait := range []time.Duration{0, e.h.TTL} { // before a renewal, and after some
		a, f := e.faultyClient(Rule{Effect: SlowAfter, Delay: e.h.TTL / 8})
		e.stopsBefore(a, wait, f.Cut)
	}
}

func lossRealCut(e *env) {
	d := e.store.Open(e.TB)
	c, err := pawl.New(d, &pawl.Options{TTL: e.h.TTL})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		e.store.Heal(e.TB, d)
		c.Close()
	})
	e.stopsBefore(c, e.h.TTL, func() { e.store.Cut(e.TB, d) })
}

// stopsBefore cuts off a, whose lease is wait old, and checks that it has stopped
// when another client begins.
func (e *env) stopsBefore(a *pawl.Client, wait time.Duration, cut func()) {
	e.Helper()
	name := e.name("deploy")
	l := e.get(a, name)
	ctx, cancel := l.Context(e.ctx)
	defer cancel()
	next := e.queue(e.client(), name)
	time.Sleep(wait)
	next.waits()
	cut()
	started := next.got(e.h.TTL + e.soon())
	if l.Err() == nil {
		e.Error("the lease of the client that was cut off is still trusted when the next begins")
	}
	if !e.closed(l.Done(), 100*time.Millisecond) { // for the scheduler only
		e.Error("Done is open when the next begins")
	}
	if ctx.Err() == nil || !errors.Is(context.Cause(ctx), pawl.ErrLost) {
		e.Errorf("the lease's context: %v, cause %v; want ErrLost", ctx.Err(), context.Cause(ctx))
	}
	e.mustEnd(l, 0, pawl.ErrLost)
	e.give(started)
}

// endsAtDeadline checks that a lease of a client with the given faults is lost
// at its deadline: not later, and not much earlier either.
func (e *env) endsAtDeadline(rules ...Rule) {
	e.Helper()
	c, f := e.faultyClient()
	l := e.get(c, e.name("deploy"))
	time.Sleep(e.h.TTL) // some renewals go well
	f.Add(rules...)
	e.mustEnd(l, e.h.TTL+e.h.Slack, pawl.ErrLost)
	late := time.Since(l.Deadline())
	if late < -time.Millisecond || late > min(e.h.Slack, driver.Drift(e.h.TTL)+200*time.Millisecond)+4*e.pulse.late() {
		e.Errorf("the lease ended %v after its deadline", late)
	}
	// It does not come back when the store does.
	f.Clear()
	time.Sleep(e.h.TTL)
	e.mustEnd(l, 0, pawl.ErrLost)
	l.Release(e.ctx)
	e.give(e.queue(e.client(), e.name("deploy")).got(e.h.TTL + e.soon()))
}

func lossFailing(e *env)    { e.endsAtDeadline(Rule{Op: Renew, Effect: FailBefore}) }
func lossHanging(e *env)    { e.endsAtDeadline(Rule{Op: Renew, Effect: Hang}) }
func lossUnanswered(e *env) { e.endsAtDeadline(Rule{Op: Renew, Effect: FailAfter}) }
func lossLate(e *env) {
	e.endsAtDeadline(Rule{Op: Renew, Effect: SlowAfter, Delay: 3 * e.h.TTL})
}

// lives checks that a lease with the given faults is never lost.
func (e *env) lives(rules ...Rule) {
	e.Helper()
	c, f := e.faultyClient(rules...)
	l := e.get(c, e.name("deploy"))
	for range 8 {
		time.Sleep(e.h.TTL / 2)
		e.alive(l)
	}
	if f.Calls(Renew) < 5 {
		e.Errorf("%d renewals in four TTLs; want at least 5", f.Calls(Renew))
	}
	e.give(l)
}

func lossOutage(e *env) {
	e.lives(
		Rule{Op: Renew, After: 1, Count: 2, Effect: FailBefore},
		Rule{Op: Renew, After: 3, Count: 2, Effect: FailAfter},
		Rule{Op: Renew, After: 3, Count: 1, Effect: Hang},
	)
}

// lossSlow: a lease lives as long as its renewals are answered within a third of the TTL.
func lossSlow(e *env) {
	e.lives(
		Rule{Op: Renew, Count: 3, Effect: SlowAfter, Delay: e.h.TTL / 5},
		Rule{Op: Renew, Effect: SlowBefore, Delay: e.h.TTL / 5},
	)
}

// lossGone: the store has ended the lease and the message about it was lost. The next
// renewal has to find that out, long before the deadline.
func lossGone(e *env) {
	a, f := e.faultyClient()
	b, name := e.client(), e.name("deploy")
	l := e.get(a, name)
	f.Cut() // the message is lost
	if err := b.Break(e.ctx, name, l.ID(), breakWhy); err != nil {
		e.Fatalf("Break = %v; want nil", err)
	}
	e.pause()
	f.Heal()
	e.mustEnd(l, e.h.TTL/2+e.h.Slack, pawl.ErrLost)
	e.give(e.get(b, name))
}

func lossBroken(e *env) {
	a, name := e.briefClient(), e.name("deploy")
	b, err := pawl.New(e.store.Open(e.TB), &pawl.Options{TTL: e.h.TTL, Holder: *breaker})
	if err != nil {
		e.Fatal(err)
	}
	defer b.Close()
	l := e.get(a, name)
	e.calls.Go(func() { // lets go, as a holder must
		<-l.Done()
		l.Release(e.ctx)
	})
	if err := b.Break(e.ctx, name, l.ID(), breakWhy); err != nil {
		e.Fatalf("Break = %v; want nil", err)
	}
	e.mustEnd(l, e.h.TTL/2+e.h.Slack, pawl.ErrLost)
	e.toldBy(l.Err())
	e.give(e.queue(b, name).got(e.soon()))
}

func lossRelease(e *env) {
	a, f := e.faultyClient()
	b, name := e.client(), e.name("deploy")
	l := e.get(a, name)
	f.Cut()
	next := e.queue(b, name).got(e.h.TTL + e.soon())
	f.Heal()
	for range 2 {
		if err := l.Release(e.ctx); !errors.Is(err, pawl.ErrLost) {
			e.Errorf("Release after loss = %v; want ErrLost", err)
		}
	}
	e.busy(e.client(), name)
	e.alive(next)
	e.give(next)
}

// lossLateRenewal has a renewal arrive at the store after the release that was sent
// after it.
func lossLateRenewal(e *env) {
	a, f := e.faultyClient(Rule{Op: Renew, Effect: SlowBefore, Delay: e.h.TTL / 3})
	b, name := e.client(), e.name("deploy")
	l := e.get(a, name)
	e.eventually(e.h.TTL, func() error {
		if f.Calls(Renew) == 0 {
			return errors.New("no renewal yet")
		}
		return nil
	})
	e.give(l)
	next := e.get(b, name)
	time.Sleep(e.h.TTL / 2)
	e.mustEnd(l, 0, pawl.ErrReleased)
	e.alive(next)
	e.busy(a, name)
	e.give(next)
	e.give(e.get(a, name))
}

func lossDo(e *env) {
	a, f := e.faultyClient()
	boom := errors.New("boom")
	err := a.Do(e.ctx, e.name("deploy"), func(ctx context.Context, l *pawl.Lease) error {
		f.Cut()
		if !e.closed(ctx.Done(), e.h.TTL+e.h.Slack) {
			e.Error("the context of Do has not ended with the lease")
		}
		if !errors.Is(context.Cause(ctx), pawl.ErrLost) {
			e.Errorf("cause of the end of Do's context = %v; want ErrLost", context.Cause(ctx))
		}
		f.Heal()
		return boom
	})
	if !errors.Is(err, boom) || !errors.Is(err, pawl.ErrLost) {
		e.Errorf("Do = %v; want both the function's error and ErrLost", err)
	}
}
