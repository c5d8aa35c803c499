// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// env is what one check works with.
type env struct {
	testing.TB
	h       *Harness
	service Service
	ctx     context.Context // ends with the check
	prefix  string          // of all names of this check
}

func newEnv(t testing.TB, h *Harness) *env {
	e := &env{TB: t, h: h, service: h.Start(t), prefix: "wiretest-" + rand.Text()[:8] + "/"}
	ctx, cancel := context.WithTimeout(context.Background(), 10*h.Long+h.Recovery) // for stores that hang for ever
	e.ctx = ctx
	t.Cleanup(cancel)
	return e
}

// name returns a name that no other check uses.
func (e *env) name(s string) string { return e.prefix + s }

// request returns a request for a new exclusive lease on "deploy" that does not end during the check.
func (e *env) request() *driver.Request { return e.of("deploy") }

// of returns a request for a new exclusive lease on the given name.
func (e *env) of(name string) *driver.Request {
	return &driver.Request{
		Name: e.name(name), Lease: rand.Text(), TTL: e.h.Long, Why: "conformance",
		Holder: &driver.Holder{Who: "wiretest", Host: "here", PID: 7, Space: driver.PIDSpace(), Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}
}

// short returns a request for a new exclusive lease on "deploy" that expires during the check.
func (e *env) short() *driver.Request {
	r := e.request()
	r.TTL = e.h.TTL
	return r
}

// shared returns r as a request for a shared lease.
func shared(r *driver.Request) *driver.Request {
	r.Shared = true
	return r
}

// slot returns r as a request for one of n slots.
func slot(r *driver.Request, n int) *driver.Request {
	r.Slots = n
	return r
}

// trusted returns until when a client trusts a lease.
func trusted(since driver.Instant, ttl time.Duration) driver.Instant {
	return since.Add(ttl - driver.Drift(ttl))
}

// notEarly fails if its holder still trusts a lease of TTL Harness.TTL, whose name has come free.
func (e *env) notEarly(since driver.Instant) {
	e.Helper()
	if early := trusted(since, e.h.TTL).Sub(driver.Now()); early > 0 {
		e.Errorf("the name came free %v before its holder ceased to trust it", early)
	}
}

// exact reports whether time is exact, as in a bubble.
func (e *env) exact() bool { return e.h.soon < e.h.TTL }

// sleepUntil sleeps until the instant t.
func sleepUntil(t driver.Instant) {
	for d := t.Sub(driver.Now()); d > 0; d = t.Sub(driver.Now()) {
		time.Sleep(d)
	}
}

// eventually calls f until it returns true. It fails if that takes longer than d, and what takes no time. F
// also returns the last error, if there is one.
func (e *env) eventually(d time.Duration, what string, f func() (done bool, err error)) {
	e.Helper()
	end := driver.Now().Add(d + e.h.soon)
	for pause := time.Millisecond; ; pause = min(2*pause, e.h.TTL/50, e.h.soon) {
		done, err := f()
		if done {
			return
		}
		if driver.Now() >= end {
			e.Fatalf("not in %v: %s; %v", d+e.h.soon, what, err)
		}
		time.Sleep(pause)
	}
}

// soonEnough is for a step of which a lease of TTL Harness.TTL must not end meanwhile. It runs f with new
// names and a longer TTL as long as f reports that the machine was too late for that.
func (e *env) soonEnough(f func(e *env) (late bool)) {
	e.Helper()
	h := *e.h
	for range 5 {
		next := *e
		next.h, next.prefix = &h, e.prefix+rand.Text()[:4]+"/"
		if !f(&next) {
			return
		}
		h.TTL *= 2
	}
	e.Fatalf("this machine was late by more than %v five times", e.h.TTL)
}

// held checks that a lease holds the name of r, which nobody else gets.
func (e *env) held(r *driver.Request) {
	e.Helper()
	other := *e.request()
	other.Name = r.Name
	e.open().refused(&other)
}

// free checks that nobody holds the name of r, or waits for it.
func (e *env) free(r *driver.Request) driver.Answer {
	e.Helper()
	other, p := *e.request(), e.open()
	other.Name, other.TTL = r.Name, min(r.TTL, other.TTL)
	ans := p.take(&other)
	p.end(&other)
	return ans
}

// soonFree has p take the name of r, which must come free by the time at which a lease of
// TTL Harness.TTL ends.
func (e *env) soonFree(p *party, r *driver.Request) (ans driver.Answer) {
	e.Helper()
	other := *e.request()
	other.Name, other.TTL = r.Name, min(r.TTL, other.TTL)
	e.eventually(e.h.TTL, "the name comes free", func() (bool, error) {
		var err error
		ans, err = p.ask(&other)
		if f := driver.FailureOf(err); err != nil && f.Lasting {
			e.Fatalf("Ask(%.80q) = %v; want an answer", r.Name, err)
		}
		return err == nil && ans.Granted, err
	})
	p.end(&other)
	return ans
}
