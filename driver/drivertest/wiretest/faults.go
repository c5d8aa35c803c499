// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var faultChecks = []Check{
	{Name: "a-crash-frees-the-names-of-that-participant", Needs: []string{"Crash"}, run: crashFrees},
	{Name: "a-waiter-has-its-turn-after-a-crash-of-the-holder", Needs: []string{"Crash", "Queue"}, run: crashWakes},
	{Name: "a-crashed-waiter-is-passed-over", Needs: []string{"Crash", "Queue"}, run: crashedWaiter},
	{Name: "a-request-that-is-cut-off-says-what-is-known", Needs: []string{"Cut"}, run: cutAsks},
	{Name: "a-holder-that-is-cut-off-keeps-nobody-out-for-long", Needs: []string{"Cut", "Expiry"}, run: cutHolder},
	{Name: "close-ends-requests-under-way", Needs: []string{"Cut"}, run: cutClose},
	{Name: "a-restart-ends-no-lease-that-is-trusted", Needs: []string{"Restart", "Expiry"}, run: restarted},
	{Name: "a-lease-survives-a-restart", Needs: []string{"Restart", "Expiry", "SurvivesRestart"}, run: survivesRestart},
	{Name: "nothing-is-left", Needs: []string{"Left"}, run: nothingLeft},
}

func crashFrees(e *env) {
	kept, p, r, other := e.request(), e.open(), e.short(), e.open()
	kept.Name = e.name("kept")
	other.take(kept)
	reader := shared(e.request())
	reader.Name = e.name("readers")
	if p.Caps().Shared {
		other.take(reader)
		gone := shared(e.short())
		gone.Name = reader.Name
		p.take(gone)
	}
	ans := p.take(r)
	e.service.Crash(e.TB, p.Store)
	next := e.soonFree(other, r)
	early := trusted(ans.Since, e.h.TTL).Sub(driver.Now())
	if other.Caps().Expiry && other.Caps().Adopts && early > 0 {
		e.Errorf("the lease ended %v before its TTL was over, with its participant", early)
	}
	if other.Caps().Fencing && next.Token <= ans.Token {
		e.Errorf("token %d after %d and a crash", next.Token, ans.Token)
	}
	e.held(kept)
	other.end(kept)
	if other.Caps().Shared {
		e.held(reader)
		other.end(reader)
	}
}

func crashWakes(e *env) {
	p, b, r, w := e.open(), e.open(), e.short(), e.request()
	p.take(r)
	b.hear(r.Name)
	w.Queue = true
	ans, err := b.ask(w)
	if err != nil {
		e.Fatalf("Ask = %v; want an answer", err)
	}
	e.service.Crash(e.TB, p.Store)
	if !ans.Granted { // the machine was too late for r
		b.turnIn(w, ans, e.h.TTL)
	}
	b.end(w)
}

func crashedWaiter(e *env) {
	holder, dead, b, r, gone, w := e.open(), e.open(), e.open(), e.request(), e.short(), e.request()
	holder.take(r)
	dead.wait(gone)
	ans := b.wait(w)
	e.service.Crash(e.TB, dead.Store)
	holder.end(r)
	b.turnIn(w, ans, 2*e.h.TTL)
	b.end(w)
	e.free(w)
}

// cutOff returns a participant that is cut off, and a context that ends while it is.
func (e *env) cutOff(p *party) (ctx context.Context, heal func()) {
	e.Helper()
	e.service.Cut(e.TB, p.Store)
	ctx, cancel := context.WithTimeout(e.ctx, e.h.TTL/2)
	return ctx, func() { cancel(); e.service.Heal(e.TB, p.Store) }
}

func cutAsks(e *env) {
	p, r := e.open(), e.short()
	p.take(r)
	p.end(r)
	r = e.short()
	ctx, heal := e.cutOff(p)
	ans, err := p.Ask(ctx, r)
	f := driver.FailureOf(err)
	switch {
	case ans.Granted || err == nil:
		e.Errorf("Ask that is cut off = granted %v, %v; want an error", ans.Granted, err)
	case !f.Silent && !errors.Is(err, context.DeadlineExceeded):
		e.Errorf("Ask that is cut off = %+v; want that there was no answer, or the error of the context", f)
	case f.Lasting:
		e.Errorf("Ask that is cut off = %+v; want that it does not last", f)
	case !f.Maybe:
		e.free(r)
	}
	heal()
	e.eventually(e.h.TTL, "the end of the lease is answered after the cut", func() (bool, error) {
		_, err := p.End(e.ctx, p.ref(r), driver.End{Unsure: true, Doubt: true})
		return err == nil || lost(err), err
	})
	e.soonFree(e.open(), r)
	e.soonFree(p, r)
}

func cutHolder(e *env) {
	p, r, other, next := e.open(), e.short(), e.open(), e.request()
	since := p.take(r).Since
	ctx, heal := e.cutOff(p)
	n, err := p.Renew(ctx, p.ref(r), e.h.TTL)
	if err == nil || lost(err) {
		e.Errorf("Renew that is cut off = %+v, %v; want that there was no answer", n, err)
	}
	e.eventually(2*e.h.TTL, "another is granted the name of a holder that is cut off", func() (bool, error) {
		ans, err := other.ask(next)
		return err == nil && ans.Granted, err
	})
	e.notEarly(since)
	heal()
	e.eventually(e.h.TTL, "a renewal after the cut says that the lease is lost", func() (bool, error) {
		_, err := p.Renew(e.ctx, p.ref(r), e.h.TTL)
		return lost(err), err
	})
	e.held(next)
	other.end(next)
}

func cutClose(e *env) {
	p := e.open()
	p.take(e.request())
	e.service.Cut(e.TB, p.Store)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if ans, err := p.Ask(e.ctx, e.of("other")); ans.Granted || err == nil {
			e.Errorf("Ask of a store that is closed meanwhile = granted %v, %v; want an error", ans.Granted, err)
		}
	}()
	time.Sleep(e.h.pause)
	if err := p.Close(); err != nil {
		e.Logf("Close = %v", err) // it may say that it could not take its leave
	}
	select {
	case <-done:
	case <-time.After(e.h.soon):
		e.Errorf("%v after Close a request is still under way", e.h.soon)
	}
	e.service.Heal(e.TB, p.Store)
}

func restarted(e *env) {
	p, other, r, next := e.open(), e.open(), e.short(), e.short()
	first := p.take(r)
	if next.Queue = p.Caps().Queue; next.Queue {
		other.hear(next.Name)
		if _, err := other.ask(next); err != nil {
			e.Fatalf("Ask = %v; want an answer", err)
		}
	}
	e.service.Restart(e.TB)
	var ans driver.Answer
	e.eventually(e.h.TTL+e.h.Recovery, "another is granted the name after a restart", func() (bool, error) {
		var err error
		ans, err = other.ask(next)
		return err == nil && ans.Granted, err
	})
	e.notEarly(first.Since)
	if other.Caps().Fencing && ans.Token <= first.Token {
		e.Errorf("token %d after %d and a restart", ans.Token, first.Token)
	}
}

func survivesRestart(e *env) {
	e.soonEnough(func(e *env) (late bool) {
		p, r := e.open(), e.short()
		since := p.take(r).Since
		e.service.Restart(e.TB)
		var err error
		e.eventually(e.h.TTL, "an answer after a restart", func() (bool, error) {
			_, err = p.Renew(e.ctx, p.ref(r), e.h.TTL)
			return err == nil || lost(err), err
		})
		if err != nil && !lateFor(since, r) {
			e.Errorf("Renew after a restart = %v; want nil", err)
		}
		return err != nil
	})
}

func nothingLeft(e *env) {
	a := e.open()
	if caps := a.Caps(); caps.Queue {
		holder, r, ps, ws, as := e.queue(2)
		ps[1].leave(ws[1])
		holder.end(r)
		ps[0].turn(ws[0], as[0])
		ps[0].end(ws[0])
	}
	kinds := []*driver.Request{e.request(), shared(e.request()), slot(e.request(), 2)}
	for i, ok := range []bool{true, a.Caps().Shared, a.Caps().Slots} {
		if ok {
			a.take(kinds[i])
			a.end(kinds[i])
		}
	}
	if a.Caps().Expiry {
		expired := e.short()
		a.take(expired)
		e.soonFree(a, expired)
	}
	var left []string
	defer func() {
		if len(left) > 0 {
			e.Logf("left: %q", left)
		}
	}()
	e.eventually(e.h.TTL, "nothing is left in the service", func() (bool, error) {
		left = e.service.Left(e.TB, e.prefix)
		return len(left) == 0, nil
	})
}
