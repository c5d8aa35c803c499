// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var grantTests = []Test{
	{Name: "one-holder-at-a-time", run: oneHolder},
	{Name: "release-frees-the-name", run: releaseFrees},
	{Name: "token-grows-with-every-grant", Needs: []string{"Fencing"}, run: tokenGrows},
	{Name: "second-release-spares-successor", run: secondRelease},
	{Name: "renewal-after-release-never-revives", Needs: []string{"Expiry"}, run: renewalAfterRelease},
	{Name: "repeated-attempt-is-harmless", run: repeatedAttempt},
	{Name: "repeated-attempt-spares-another-holder", run: repeatedAttemptHeld},
	{Name: "ended-context-records-nothing", run: endedContext},
	{Name: "close-spares-other-participants", run: closeSpares},
	{Name: "since-lies-within-the-call", run: sinceWithin},
}

func oneHolder(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	g := e.try(a, name)
	e.held(b, name)
	e.held(a, name) // another attempt of the same participant is another's
	e.release(g)
	g = e.try(b, name)
	e.held(a, name)
	e.release(g)
}

func releaseFrees(e *env) {
	a, b := e.open(), e.open()
	for range 5 {
		e.free(a, e.name("deploy"))
		e.free(a, e.name("deploy"))
		e.free(b, e.name("deploy"))
	}
}

func tokenGrows(e *env) {
	ds := []driver.Driver{e.open(), e.open(), e.open()}
	last := uint64(0)
	for i := range 20 {
		g := e.try(ds[i%len(ds)], e.name("deploy"))
		if g.Token() <= last {
			e.Fatalf("grant %d has token %d after token %d; want a greater one", i, g.Token(), last)
		}
		last = g.Token()
		e.release(g)
	}
}

func secondRelease(e *env) {
	a, b, c := e.open(), e.open(), e.open()
	name := e.name("deploy")
	old := e.try(a, name)
	e.release(old)
	g := e.try(b, name)
	if err := old.Release(e.ctx); err != nil {
		e.ended("second Release", err)
	}
	e.held(c, name)
	e.release(g)
	if err := old.Release(e.ctx); err != nil {
		e.ended("third Release", err)
	}
	e.free(c, name)
}

func renewalAfterRelease(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	g := e.try(a, name)
	e.release(g)
	_, err := g.Renew(e.ctx, e.long())
	e.ended("Renew after Release", err)
	next := e.try(b, name)
	_, err = g.Renew(e.ctx, e.long())
	e.ended("Renew after Release, with a successor", err)
	e.release(next)
	e.free(a, name)
}

// repeatedAttempt is what happens after a lost reply. Whether the store answers
// with the grant or with ErrHeld, there must be one hold, not two.
func repeatedAttempt(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	req := e.request(name)
	first := e.tryReq(a, req)
	second, err := a.TryAcquire(e.ctx, req)
	switch {
	case err == nil && second != nil:
		if second.Token() < first.Token() {
			e.Errorf("repeated attempt has token %d after %d", second.Token(), first.Token())
		}
		e.held(b, name)
		e.release(second) // ends the one hold there is
		next := e.try(b, name)
		if err := first.Release(e.ctx); err != nil {
			e.ended("Release of the first of two", err)
		}
		e.held(a, name)
		e.release(next)
	case errors.Is(err, driver.ErrHeld):
		e.held(b, name)
		e.release(first)
	default:
		e.Fatalf("repeated TryAcquire = %s, %v; want a grant or ErrHeld", show(second), err)
	}
	next := e.try(b, name)
	if next.Token() <= first.Token() && next.Token() != 0 {
		e.Errorf("next token %d after %d; want a greater one", next.Token(), first.Token())
	}
	e.release(next)
}

func repeatedAttemptHeld(e *env) {
	a, b, c := e.open(), e.open(), e.open()
	name := e.name("deploy")
	req := e.request(name)
	e.release(e.tryReq(a, req))
	g := e.try(b, name)
	if again, err := a.TryAcquire(e.ctx, req); !errors.Is(err, driver.ErrHeld) {
		e.Fatalf("late repetition of an attempt = %s, %v; want ErrHeld", show(again), err)
	}
	e.held(c, name)
	e.release(g)
	e.free(c, name)
}

func endedContext(e *env) {
	a, b := e.open(), e.open()
	name := e.name("deploy")
	cancelled, cancel := context.WithCancel(e.ctx)
	cancel()
	late, cancel := context.WithDeadline(e.ctx, time.Now().Add(-time.Second))
	defer cancel()
	acquire := map[string]func(context.Context, *driver.Request) (driver.Grant, error){"TryAcquire": a.TryAcquire}
	if q, ok := a.(driver.Queuer); ok {
		acquire["Acquire"] = q.Acquire
	}
	for what, f := range acquire {
		for _, ctx := range []context.Context{cancelled, late} {
			g, err := f(ctx, e.request(name))
			if g != nil || !errors.Is(err, ctx.Err()) {
				e.Errorf("%s with an ended context = %s, %v; want %v", what, show(g), err, ctx.Err())
			}
			e.free(b, name)
		}
	}
}

func closeSpares(e *env) {
	a, b := e.store.Open(e.TB), e.open()
	theirs := e.try(b, e.name("theirs"))
	e.free(a, e.name("ours"))
	if err := a.Close(); err != nil {
		e.Errorf("Close = %v; want nil", err)
	}
	if g, err := a.TryAcquire(e.ctx, e.request(e.name("ours"))); err == nil || g != nil {
		e.Errorf("TryAcquire after Close = %s, %v; want an error", show(g), err)
	}
	e.free(b, e.name("ours"))
	e.held(b, e.name("theirs"))
	e.release(theirs)
}

// sinceWithin finds a store that counts trust from the future. That it counts
// from the question and not from the answer is seen at expiry; see
// expiry-is-not-before-since-plus-ttl.
func sinceWithin(e *env) {
	d := e.open()
	before := driver.Now()
	g := e.try(d, e.name("deploy"))
	e.within("TryAcquire", before, g.Since())
	if d.Guarantees().Expiry {
		e.pause()
		before = driver.Now()
		since, err := g.Renew(e.ctx, e.long())
		if err != nil {
			e.Fatalf("Renew = %v; want nil", err)
		}
		e.within("Renew", before, since)
	}
	e.release(g)
	if e.store.Late != nil && d.Guarantees().Expiry {
		e.sinceRequest()
	}
}

// sinceRequest has answers come late: trust counts from before the request was sent, not from the answer.
func (e *env) sinceRequest() {
	e.Helper()
	late := e.h.TTL / 5
	d := e.store.Late(e.TB, late)
	defer d.Close()
	sent := func(what string, since driver.Instant) {
		e.Helper()
		if before := driver.Now().Sub(since); before < late {
			e.Errorf("%s was answered %v after it was sent, and Since is %v before the answer: count from before the request", what, late, before)
		}
	}
	g := e.try(d, e.name("late"))
	sent("TryAcquire", g.Since())
	since, err := g.Renew(e.ctx, e.long())
	if err != nil {
		e.Fatalf("Renew = %v; want nil", err)
	}
	sent("Renew", since)
	e.release(g)
}

func (e *env) within(what string, before, since driver.Instant) {
	e.Helper()
	if after := driver.Now(); since > after {
		e.Errorf("Since of %s lies %v after its end", what, since.Sub(after))
	}
	// A store that is too modest is safe, but gives away trusted time.
	if early := before.Sub(since); early > time.Millisecond {
		e.Errorf("Since of %s lies %v before its beginning", what, early)
	}
}
