// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"github.com/pawl-go/pawl/driver"
)

var keepChecks = []Check{
	{Name: "a-kept-lease-has-tokens-to-spare", Needs: []string{"Keeps", "Fencing"}, run: spares},
	{Name: "a-kept-lease-hears-who-wants-its-name", Needs: []string{"Keeps"}, run: hearsWanted},
	{Name: "a-lease-that-is-not-kept-is-not-asked-for", Needs: []string{"Queue"}, run: notWanted},
}

func spares(e *env) {
	p, r := e.open(), e.request()
	r.Keeps = true
	ans := p.take(r)
	if ans.Spare == 0 {
		e.Error("no tokens are set aside for a lease that may be kept")
	}
	if ans.Waited {
		e.Error("a lease on a name that nobody wants was waited for: its client does not keep it")
	}
	if again := p.take(r); again.Spare != ans.Spare || again.Token != ans.Token {
		e.Errorf("asked again, the lease has token %d and %d after it; want %d and %d", again.Token, again.Spare, ans.Token, ans.Spare)
	}
	p.end(r)
	if next := e.free(e.request()); next.Token <= ans.Token+ans.Spare {
		e.Errorf("token %d after %d, and %d after it were set aside", next.Token, ans.Token, ans.Spare)
	}
	if p.Caps().Expiry {
		r = e.short()
		r.Keeps = true
		ans = p.take(r)
		if next := e.soonFree(e.open(), r); next.Token <= ans.Token+ans.Spare {
			e.Errorf("token %d after expiry, after %d, and %d after it were set aside", next.Token, ans.Token, ans.Spare)
		}
	}
	if !p.Caps().Shows {
		return
	}
	r = e.request()
	r.Keeps = true
	ans = p.take(r)
	e.open().mustBreak(r, r.Holder, "test")
	if next := e.free(e.request()); next.Token <= ans.Token+ans.Spare {
		e.Errorf("token %d after a break, after %d, and %d after it were set aside", next.Token, ans.Token, ans.Spare)
	}
}

// hearsWanted: an event is a hint, which may be lost. So others ask again.
func hearsWanted(e *env) {
	p, r, other := e.open(), e.request(), e.open()
	r.Keeps = true
	p.hear(r.Name)
	p.take(r)
	hears := func(what string, waits bool, ask func()) {
		e.Helper()
		e.eventually(0, "the holder hears that "+what, func() (bool, error) {
			ask()
			ev, ok := p.event(r, driver.Now().Add(e.h.pause), driver.Wanted)
			return ok && ev.Waits == waits, nil
		})
	}
	refused := func() { other.refused(e.request()) }
	hears("another was refused", false, refused)
	if p.Caps().Queue {
		waiter, w := e.open(), e.request()
		w.Keeps = true
		ans := waiter.wait(w)
		hears("another waits", true, func() {})
		p.end(r)
		waiter.turn(w, ans)
		p, r = waiter, w
		hears("another was refused, when the lease had been waited for", false, refused)
	}
	p.end(r)
}

func notWanted(e *env) {
	a, b, r, w, ans := e.waiting(e.h.Long)
	e.open().refused(e.request())
	a.end(r)
	b.turn(w, ans)
	b.end(w)
	a.not(r, driver.Wanted)
}
