// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// Tests of how a client bears faults between it and the store.
var clientFaultTests = []Test{
	{Name: "lost-answer-to-an-attempt-is-cleaned-up", run: faultUncertain},
	{Name: "lost-answer-while-waiting-is-tried-again", run: faultTriedAgain},
	{Name: "late-undo-of-an-attempt-spares-the-next", run: faultLateUndo},
	{Name: "late-attempt-of-a-caller-that-left-is-cleaned-up", run: faultLateAttempt},
	{Name: "failed-release-is-repeated", run: faultRelease},
	{Name: "repeated-release-spares-the-successor", run: faultReleaseAnswer},
	{Name: "unreachable-store-is-told-at-once", run: faultUnreachable},
	{Name: "waiting-client-outlives-a-short-outage", run: faultWaiting},
	{Name: "waiter-of-a-store-that-is-gone-is-told", Needs: []string{"Cut"}, run: faultGone},
	{Name: "clients-never-overlap-under-random-faults", run: faultChaos},
}

func faultUncertain(e *env) {
	a, f := e.faultyClient(Rule{Op: TryAcquire, Count: 1, Effect: FailAfter})
	name := e.name("deploy")
	if l, err := a.TryAcquire(e.ctx, name); l != nil || !errors.Is(err, pawl.ErrUncertain) {
		e.Fatalf("TryAcquire = %s, %v; want ErrUncertain", showLease(l), err)
	}
	// Well before the TTL has passed, unless the harness's TTL is very short.
	e.give(e.queue(e.client(), name, pawl.TTL(e.long())).got(e.soon()))
	if f.Calls(Release) == 0 {
		e.Error("the attempt was never released")
	}
	e.give(e.get(a, name))
}

func faultTriedAgain(e *env) {
	for _, op := range []Op{TryAcquire, Acquire} {
		a, _ := e.faultyClient(Rule{Op: op, Count: 2, Effect: FailAfter})
		l := e.queue(a, e.name("deploy")).got(e.h.TTL + e.soon())
		e.give(l)
		e.give(e.get(e.client(), e.name("deploy")))
	}
}

// faultLateUndo: the answer to an attempt is lost, and the release that undoes it
// comes after the next attempt, which must not be undone with it.
func faultLateUndo(e *env) {
	for _, op := range []Op{TryAcquire, Acquire} {
		a, f := e.faultyClient(
			Rule{Op: op, Count: 1, Effect: FailAfter},
			Rule{Op: Release, Count: 2, Effect: FailBefore},
		)
		name := e.name("deploy" + op.String())
		var w *acquiring
		if op == TryAcquire {
			w = e.queue(a, name)
		} else { // make it wait in the queue, if there is one
			other := e.get(e.client(), name)
			w = e.queue(a, name)
			e.give(other)
		}
		l := w.got(e.h.TTL + e.soon())
		time.Sleep(e.h.TTL / 2) // meanwhile the client repeats the release
		e.busy(e.client(), name)
		f.Clear()
		e.give(l)
	}
}

func faultLateAttempt(e *env) {
	for _, op := range []Op{TryAcquire, Acquire} {
		name, late := e.name("deploy"+op.String()), (e.h.TTL+e.h.Slack)/2
		a, _ := e.faultyClient(Rule{Op: op, Effect: SlowBefore, Delay: late})
		w := e.queue(a, name, pawl.TTL(e.long()))
		select {
		case <-w.done: // the store is not asked in this way
			e.give(w.got(0))
			continue
		default:
		}
		w.cancel()
		w.failed(late/2, context.Canceled)
		time.Sleep(late + e.h.Pause)
		e.give(e.queue(e.client(), name).got(e.soon()))
	}
}

func faultRelease(e *env) {
	a, _ := e.faultyClient(Rule{Op: Release, Count: 3, Effect: FailBefore})
	l := e.get(a, e.name("deploy"), pawl.TTL(e.long()))
	if err := l.Release(e.ctx); !errors.Is(err, pawl.ErrUnavailable) {
		e.Errorf("Release = %v; want ErrUnavailable", err)
	}
	e.mustEnd(l, 0, pawl.ErrReleased)
	e.give(e.queue(e.client(), e.name("deploy")).got(e.soon()))
}

func faultReleaseAnswer(e *env) {
	a, f := e.faultyClient(Rule{Op: Release, Count: 3, Effect: FailAfter})
	b, name := e.client(), e.name("deploy")
	l := e.get(a, name)
	if err := l.Release(e.ctx); err == nil {
		e.Error("Release = nil although the answer was lost")
	}
	next := e.get(b, name)
	e.eventually(e.soon(), func() error {
		if f.Calls(Release) < 4 {
			return errors.New("the release is not repeated")
		}
		return nil
	})
	e.busy(e.client(), name)
	e.give(next)
}

func faultUnreachable(e *env) {
	a, f := e.faultyClient()
	name := e.name("deploy")
	f.Cut()
	if l, err := a.TryAcquire(e.ctx, name); l != nil || !errors.Is(err, pawl.ErrUnavailable) {
		e.Errorf("TryAcquire = %s, %v; want ErrUnavailable", showLease(l), err)
	}
	e.queue(a, name).failed(e.h.Slack, pawl.ErrUnavailable)
	f.Heal()
	e.give(e.get(a, name))
}

func faultWaiting(e *env) {
	a, f := e.faultyClient()
	b, name := e.client(), e.name("deploy")
	l := e.get(b, name)
	first, second := e.queue(a, name), e.queue(a, name)
	f.Cut()
	time.Sleep(e.h.TTL / 4)
	first.waits()
	f.Heal()
	time.Sleep(e.h.TTL / 4)
	second.waits()
	e.give(l)
	e.give(first.got(e.h.TTL + e.soon()))
	e.give(second.got(e.soon()))
	e.give(e.get(b, name))
}

// faultGone: a waiter bears an outage for its TTL. What it leaves in the queue does not
// keep others waiting when the store is back.
func faultGone(e *env) {
	d, name := e.store.Open(e.TB), e.name("deploy")
	c, err := pawl.New(d, &pawl.Options{TTL: e.h.TTL, Holder: pawl.Holder{Who: "drivertest"}})
	if err != nil {
		e.Fatalf("pawl.New = %v", err)
	}
	e.Cleanup(func() { c.Close() })
	b := e.client()
	l := e.get(b, name, pawl.TTL(e.long()))
	before := e.queued(d, name)
	w := e.queue(c, name)
	e.pause()
	e.joined(d, name, before, w.done, e.long()/2)
	w.waits()
	e.store.Cut(e.TB, d)
	cut := time.Now()
	w.failed(3*e.h.TTL+e.soon(), pawl.ErrUnavailable)
	if d := w.at.Sub(cut); d < e.h.TTL*3/4 {
		e.Errorf("Acquire returned %v after the store was gone: %v; want it to bear that for %v", d, w.err, e.h.TTL)
	}
	e.store.Heal(e.TB, d)
	e.give(l)
	e.give(e.queue(b, name).got(e.h.TTL + e.soon()))
}

// faultChaos lets clients work while everything fails now and then. Whatever
// happens, two leases are never trusted at a time; and when the faults are over,
// the name comes free.
func faultChaos(e *env) {
	w := &witness{e: e}
	ctx, cancel := context.WithTimeout(e.ctx, 4*e.h.TTL)
	defer cancel()
	var all sync.WaitGroup
	var plans []*Faulty
	for range 3 {
		c, f := e.faultyClient(e.randomRules()...)
		plans = append(plans, f)
		all.Go(func() {
			for sleep(ctx, rand.N(3*e.h.TTL)) {
				f.Cut()
				sleep(ctx, rand.N(e.h.TTL))
				f.Heal()
			}
		})
		for range 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					e.holdAtRandom(ctx, c, w)
				}
			})
		}
	}
	all.Wait()
	for _, f := range plans {
		f.Clear()
	}
	e.give(e.queue(e.client(), e.name("deploy")).got(2*e.h.TTL + e.soon()))
}

func (e *env) holdAtRandom(ctx context.Context, c *pawl.Client, w *witness) {
	waiting, cancel := context.WithTimeout(ctx, rand.N(e.h.TTL))
	defer cancel()
	l, err := c.Acquire(waiting, e.name("deploy"))
	if err != nil {
		sleep(ctx, rand.N(e.h.TTL/10))
		return
	}
	w.saw(l)
	select {
	case <-l.Done():
	case <-time.After(rand.N(e.h.TTL)):
	}
	l.Release(ctx)
}

// randomRules returns faults that hit each kind of call now and then. Releases
// do not hang: on a store without a network they have no deadline of their own.
func (e *env) randomRules() (rules []Rule) {
	for _, op := range []Op{TryAcquire, Acquire, Renew, Release, Downgrade} {
		after := 0
		for range 10 {
			after += rand.IntN(4)
			effects := int(Hang)
			if op != Release {
				effects++
			}
			r := Rule{Op: op, After: after, Count: 1 + rand.IntN(2), Effect: Effect(rand.IntN(effects))}
			if r.Effect == SlowBefore || r.Effect == SlowAfter {
				r.Delay = rand.N(e.h.TTL)
			}
			rules = append(rules, r)
		}
	}
	return rules
}
