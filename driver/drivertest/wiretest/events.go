// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var eventChecks = []Check{
	{Name: "the-first-waiter-hears-of-a-release", Needs: []string{"Queue"}, run: hearsRelease},
	{Name: "the-first-waiter-hears-of-a-break", Needs: []string{"Queue", "Shows"}, run: hearsBreak},
	{Name: "the-first-waiter-has-its-turn-after-expiry", Needs: []string{"Queue", "Expiry"}, run: hearsExpiry},
	{Name: "the-first-waiter-hears-of-the-end-of-a-lease-by-its-id", Needs: []string{"Queue", "Adopts"}, run: hearsEndByID},
	{Name: "a-waiter-hears-that-the-one-before-it-has-left", Needs: []string{"Queue"}, run: hearsLeave},
	{Name: "the-holder-hears-who-has-broken-its-lease-and-why", Needs: []string{"Queue", "Shows"}, run: hearsLoss},
	{Name: "events-go-to-who-has-asked", Needs: []string{"Queue", "Shows"}, run: hearsOwn},
	{Name: "a-client-hears-no-loss-of-what-it-has-ended", Needs: []string{"Queue"}, run: hearsNoEnd},
	{Name: "a-name-is-heard-again-after-stop", Needs: []string{"Queue"}, run: hearsAgain},
	{Name: "events-that-were-cut-off-are-missed", Needs: []string{"Queue", "Cut"}, run: missed},
}

// waiting has a lease for ttl hold the name, and another wait for it, of which events arrive.
func (e *env) waiting(ttl time.Duration) (a, b *party, r, w *driver.Request, ans driver.Answer) {
	e.Helper()
	a, b, r, w = e.open(), e.open(), e.request(), e.request()
	r.TTL = ttl
	a.take(r)
	if ans = b.wait(w); ans.Session == nil {
		e.Error("the answer to a waiter has no session, although events about its name arrive")
	}
	return a, b, r, w, ans
}

func hearsRelease(e *env) {
	a, b, r, w, ans := e.waiting(e.h.Long)
	b.not(w, driver.Granted)
	a.end(r)
	b.turn(w, ans)
	b.end(w)
	e.free(r)
}

func hearsBreak(e *env) {
	_, b, r, w, ans := e.waiting(e.h.Long)
	e.open().mustBreak(r, r.Holder, "test")
	b.turn(w, ans)
	b.end(w)
}

func hearsExpiry(e *env) {
	e.soonEnough(func(e *env) (late bool) {
		a, b, r, w := e.open(), e.open(), e.short(), e.request()
		since := a.take(r).Since
		b.hear(r.Name)
		w.Queue = true
		ans, err := b.ask(w)
		switch {
		case lateFor(since, r):
			return true
		case err != nil || ans.Granted:
			e.Fatalf("Ask = granted %v, %v; want that it waits", ans.Granted, err)
		}
		b.turnIn(w, ans, e.h.TTL)
		e.notEarly(since)
		return false
	})
}

func hearsEndByID(e *env) {
	_, b, r, w, ans := e.waiting(e.h.Long)
	e.open().end(r)
	b.turn(w, ans)
	b.end(w)
}

// hearsLeave: those behind a waiter that leaves may be first, and those behind a writer may fit with the holders.
func hearsLeave(e *env) {
	holder, r, ps, ws, as := e.queue(2)
	ps[0].leave(ws[0])
	holder.end(r)
	ps[1].turn(ws[1], as[1])
	ps[1].end(ws[1])
	if !holder.Caps().Shared {
		return
	}
	a, b, c := e.open(), e.open(), e.open()
	reader, writer, next := shared(e.request()), e.request(), shared(e.request())
	a.take(reader)
	b.wait(writer)
	ans := c.wait(next)
	b.leave(writer)
	c.turn(next, ans)
}

func hearsLoss(e *env) {
	a, r := e.open(), e.request()
	defer a.hear(r.Name)() // a store that does not listen yet tells that by Missed
	a.take(r)
	by := &driver.Holder{Who: "breaker", Host: "there", PID: 3}
	e.open().mustBreak(r, by, "it is stuck")
	ev, ok := a.event(r, driver.Now().Add(e.h.soon), driver.Lost, driver.Missed)
	if !ok {
		e.Fatalf("no event has told the holder within %v that its lease was broken", e.h.soon)
	}
	if ev.Kind == driver.Missed { // then a client asks
		_, err := a.Renew(e.ctx, a.ref(r), time.Microsecond)
		errors.As(err, &ev.Loss)
	}
	want := driver.LostError{Reason: driver.Broken, By: by, Why: "it is stuck"}
	if l := ev.Loss; l == nil || l.Reason != want.Reason || l.Why != want.Why || l.By == nil || l.By.Who != by.Who {
		e.Errorf("the event says %v; want %v", l, &want)
	}
	if _, err := a.Renew(e.ctx, a.ref(r), e.h.TTL); !lost(err) && a.Caps().Expiry {
		e.Errorf("Renew = %v; want a LostError", err)
	}
	a.gone(r)
	a.not(r, driver.Granted)
}

// hearsOwn: another participant that hears events about the same name hears nothing of these leases.
func hearsOwn(e *env) {
	other := e.open()
	other.hear(e.request().Name)
	a, b, r, w, ans := e.waiting(e.h.Long)
	other.mustBreak(r, r.Holder, "test")
	b.turn(w, ans)
	mine := e.request()
	last := other.wait(mine)
	b.end(w)
	other.turn(mine, last)
	for _, l := range []*driver.Request{r, w} {
		other.not(l, driver.Granted, driver.Look, driver.Lost, driver.Wanted)
	}
	a.not(w, driver.Granted, driver.Look, driver.Lost)
	b.not(r, driver.Granted, driver.Look, driver.Lost)
}

func hearsNoEnd(e *env) {
	a, b, r, w, ans := e.waiting(e.h.Long)
	stop := a.hear(r.Name)
	a.end(r)
	b.turn(w, ans)
	again := e.request()
	next := a.wait(again)
	b.end(w)
	a.turn(again, next)
	stop()
	a.end(again)
	e.free(r)
	a.not(r, driver.Lost)
	b.not(w, driver.Lost)
	a.not(again, driver.Lost)
}

func hearsAgain(e *env) {
	a, b, r, w := e.open(), e.open(), e.request(), e.request()
	a.take(r)
	b.hear(r.Name)()
	stop := b.hear(r.Name)
	other := b.hear(r.Name) // two callers of one client wait for it
	stop()
	w.Queue = true
	ans := b.refused(w)
	a.end(r)
	b.turn(w, ans)
	b.end(w)
	other()
	e.free(r)
}

// missed cuts off a waiter while it is handed the name. When it is back, it learns that it may have missed
// something.
func missed(e *env) {
	a, b, r, w, _ := e.waiting(e.h.Long)
	e.service.Cut(e.TB, b.Store)
	a.end(r)
	time.Sleep(e.h.pause)
	e.service.Heal(e.TB, b.Store)
	e.eventually(e.h.TTL, "an event Missed about the name, or one that grants it", func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, ev := range b.heard {
			if about(ev, w) && ev.Kind != driver.Lost {
				return true, nil
			}
		}
		return false, nil
	})
	e.eventually(e.h.TTL, "the waiter that was cut off is granted the name", func() (bool, error) {
		ans, err := b.ask(w)
		return err == nil && ans.Granted, err
	})
	b.end(w)
}
