// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"github.com/pawl-go/pawl/driver"
)

var endChecks = []Check{
	{Name: "the-end-of-a-lease-frees-the-name-once", run: endOnce},
	{Name: "a-second-end-spares-the-successor", run: endSpares},
	{Name: "an-end-that-is-unsure-finds-what-is-there", run: endUnsure},
	{Name: "a-request-that-arrives-after-the-end-grants-nothing", Needs: []string{"Late"}, run: lateRequest},
}

func endOnce(e *env) {
	p, r, other := e.open(), e.request(), e.request()
	other.Name = e.name("other")
	p.take(r)
	p.take(other)
	p.end(r)
	e.free(r)
	p.gone(r)
	e.free(r)
	e.held(other)
}

func endSpares(e *env) {
	p, r, next := e.open(), e.request(), e.request()
	p.take(r)
	p.end(r)
	for _, other := range []*party{p, e.open()} {
		other.take(next)
		p.gone(r)
		never := e.request() // arrived, as far as the service knows
		for _, how := range []driver.End{{Unsure: true}, {Doubt: true}, {Unsure: true, Doubt: true}} {
			if _, err := p.End(e.ctx, p.ref(never), how); err != nil && !lost(err) {
				e.Errorf("End %+v = %v; want nil", how, err)
			}
		}
		if ans, _ := p.ask(r); ans.Granted { // it may say that it was ended
			e.Errorf("a lease that has ended is granted token %d beside the one that has followed it", ans.Token)
		}
		e.held(next)
		if next.TTL = e.h.Long; other.Caps().Expiry {
			other.renew(next, next.TTL)
		}
		other.end(next)
		next = e.request()
	}
}

// endUnsure ends leases that hold the name, that wait for it, and that are not there, by a client that does not
// know which of these is so.
func endUnsure(e *env) {
	how := driver.End{Unsure: true, Doubt: true}
	p, r := e.open(), e.request()
	end := func(p *party, r *driver.Request, what string, want bool) {
		e.Helper()
		if found, err := p.End(e.ctx, p.ref(r), how); err != nil || found != want {
			e.Errorf("End of a lease that %s = %v, %v; want %v", what, found, err, want)
		}
	}
	p.take(r)
	if w := e.request(); p.Caps().Queue {
		other := e.open()
		other.wait(w)
		end(other, w, "waits", true)
		end(other, w, "waited", false)
	}
	end(p, r, "holds the name", true)
	end(p, r, "has ended", false)
	end(p, e.request(), "never was", false)
	e.free(r)
}

func lateRequest(e *env) {
	queue := e.open().Caps().Queue
	for name, how := range map[string]driver.End{"unsure": {Unsure: true, Doubt: true}, "doubt": {Doubt: true}} {
		p, r := e.open(), e.request()
		r.Name = e.name(name)
		if how.Unsure {
			r.Queue = queue
		} else { // it was granted, and was asked for again
			p.take(r)
		}
		if _, err := p.End(e.ctx, p.ref(r), how); err != nil && !lost(err) {
			e.Errorf("End %+v = %v; want nil", how, err)
		}
		e.service.Late(e.TB, p.Store, r)
		other, next := e.open(), *e.request()
		next.Name = r.Name
		if ans, err := other.ask(&next); err != nil || !ans.Granted {
			e.Errorf("after End %+v a request for the lease came late, and the next lease gets granted %v, %v: want that it is granted. "+
				"With compare-and-set, End in doubt writes although the lease is not there", how, ans.Granted, err)
		}
		other.end(&next)
		if p.Caps().Shows {
			e.nobody(r.Name)
		}
	}
}
