// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var askChecks = []Check{
	{Name: "a-free-name-is-granted", run: freeIsGranted},
	{Name: "a-lease-that-asks-again-is-granted-again", run: askedAgain},
	{Name: "a-held-name-is-refused-and-shows-its-holder", run: heldIsRefused},
	{Name: "token-grows-with-each-grant", Needs: []string{"Fencing"}, run: tokenGrows},
	{Name: "a-request-whose-context-has-ended-grants-nothing", run: endedContext},
	{Name: "names-of-every-kind-are-apart", run: oddNames},
	{Name: "a-lease-ends-when-its-ttl-is-over", Needs: []string{"Expiry"}, run: expires},
	{Name: "a-lease-without-expiry-stays", Needs: []string{"no Expiry"}, run: stays},
	{Name: "a-lease-is-not-over-while-it-is-trusted", Needs: []string{"Expiry"}, run: notBefore},
	{Name: "free-says-when-a-refused-lease-may-be-granted", Needs: []string{"Expiry"}, run: saysFree},
}

func freeIsGranted(e *env) {
	p, r := e.open(), e.request()
	sent := driver.Now()
	ans := p.take(r)
	e.began("Ask", ans.Since, sent)
	if c := ans.Clock; c.At != 0 && (c.Sent < sent || c.Sent > driver.Now()) {
		e.Errorf("the clock of the server was read for a request that was sent %v after this one", c.Sent.Sub(sent))
	}
	if fencing := p.Caps().Fencing; fencing != (ans.Token != 0) {
		e.Errorf("the token is %d; Caps.Fencing is %v", ans.Token, fencing)
	}
	e.held(r)
	p.end(r)
	e.free(r)
}

func askedAgain(e *env) {
	p, r := e.open(), e.request()
	first := p.take(r)
	for range 2 {
		if again := p.take(r); again.Token != first.Token || again.Spare != first.Spare || again.Since > driver.Now() {
			e.Errorf("asked again, the lease is granted as %+v; want token %d and %d after it", again, first.Token, first.Spare)
		}
	}
	e.held(r)
	p.end(r) // all of it
	e.free(r)
	p.gone(r)
}

func heldIsRefused(e *env) {
	a, r := e.open(), e.request()
	ans := a.take(r)
	for _, p := range []*party{a, e.open()} {
		no := p.refused(e.request())
		if len(no.Holders) != 1 {
			e.Fatalf("the answer shows %d holders; want 1, it was not for the queue", len(no.Holders))
		}
		e.shows(no.Holders[0], r, ans)
	}
	if a.take(r).Token != ans.Token {
		e.Error("the lease is another one, after others have asked")
	}
}

func tokenGrows(e *env) {
	var last uint64
	more := func(after string, ans driver.Answer) {
		e.Helper()
		if ans.Token <= last {
			e.Errorf("token %d after %s; the last was %d", ans.Token, after, last)
		}
		last = ans.Token + ans.Spare
	}
	for range 3 {
		more("a release", e.free(e.request())) // each over a store of its own
	}
	p := e.open()
	if caps := p.Caps(); caps.Shows {
		r := e.request()
		more("a release", p.take(r))
		e.open().mustBreak(r, r.Holder, "test")
		more("a break", e.free(e.request()))
	}
	if p.Caps().Expiry {
		more("a release", p.take(e.short()))
		more("expiry", e.soonFree(p, e.request()))
	}
}

func endedContext(e *env) {
	p := e.open()
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	r := e.request()
	ans, err := p.Ask(ctx, r)
	if ans.Granted || !errors.Is(err, context.Canceled) {
		e.Errorf("Ask with a context that has ended = granted %v, %v; want context.Canceled", ans.Granted, err)
	}
	if driver.FailureOf(err).Maybe {
		if _, err := p.End(e.ctx, p.ref(r), driver.End{Unsure: true, Doubt: true}); err != nil {
			e.Errorf("End = %v; want nil", err)
		}
	}
	e.free(r)
	r = e.request()
	p.take(r)
	if _, err := p.Renew(ctx, p.ref(r), r.TTL); err != nil && !errors.Is(err, context.Canceled) {
		e.Errorf("Renew with a context that has ended = %v; want context.Canceled", err)
	}
	e.held(r)
}

// strange are names that have broken stores: each with a case or a near-collision that a file system, a URL, a
// path or a pattern would see.
var strange = []string{
	"a", "A", "invoice/42", "invoice/42/", "invoice//42", "invoice", "/", "//", "/abs",
	".", "..", "...", "../etc", "./a", "a/..", ".hidden", "-", "--help", "~", "*", "a*", "?", "[a]",
	"{a}", "{a}b", "a{b}", "}{", "%", "%41", "%2F", "a%2fb", "a+b", "a b", "a  b", " a", "a ", "a.", "a.lock",
	"con", "CON", "nul", "nul.txt", "com1", "a:b", "C:", `a\b`, `\`, `"`, "'", "`", "$HOME", "$(a)", ";", "|", "&", "<a>",
	"a\u00a0b", "ä", "a\u0308", "ß", "ẞ", "ss", "İ", "i", "ı", "日本語", "🔒", "👩‍👩‍👧", "\u200b", "\ufeffa", "\ufffd",
	":token", "a:token", "a:queue", "a#1", "a@b", "a=b", "a,b", "0", "00", "-1", "null", "nil", "_", "__", "=",
}

// oddNames holds all of them at once, and names of the greatest length that differ at their ends.
func oddNames(e *env) {
	names := append([]string(nil), strange...)
	for _, unit := range []string{"x", "/", ".", "日", "🔒", "Ab"} {
		room := driver.MaxName - len(e.prefix) - 1
		long := strings.Repeat(unit, room/len(unit))
		long += strings.Repeat("-", room-len(long))
		names = append(names, long+"1", long+"2")
	}
	a, b := e.open(), e.open()
	held := make([]*driver.Request, len(names)) // nil: not yet, or not any more
	renewed := driver.Now()
	keep := func() {
		if driver.Now().Sub(renewed) < e.h.Long/4 || !a.Caps().Expiry {
			return
		}
		renewed = driver.Now()
		for _, r := range held {
			if r != nil {
				a.renew(r, e.h.Long)
			}
		}
	}
	for i, name := range names {
		keep()
		r := e.of(name)
		a.take(r)
		held[i] = r
	}
	for odd := range 2 {
		for i := odd; i < len(names); i += 2 {
			keep()
			other := e.of(names[i])
			b.refused(other)
			a.end(held[i])
			held[i] = nil
			b.take(other)
			b.end(other)
		}
	}
}

func expires(e *env) {
	p, r := e.open(), e.short()
	ans := p.take(r)
	e.soonFree(e.open(), r)
	if n, err := p.Renew(e.ctx, p.ref(r), e.h.TTL); !lost(err) {
		e.Errorf("Renew of a lease of which the TTL is over = %+v, %v; want a LostError", n, err)
	}
	e.overdue(ans.Since)
}

func stays(e *env) {
	p, r := e.open(), e.short()
	r.TTL = min(r.TTL, 10*e.h.pause)
	p.take(r)
	time.Sleep(r.TTL + e.h.pause)
	e.held(r)
	p.end(r)
}

// notBefore asks for a name until it is granted, after a lease was granted, granted again, and renewed.
func notBefore(e *env) {
	for _, how := range []string{"granted", "granted again", "renewed"} {
		p, r := e.open(), e.short()
		r.Name = e.name(how)
		since := p.take(r).Since
		switch {
		case how == "granted again":
			time.Sleep(e.h.TTL / 4)
			if ans, err := p.ask(r); err == nil && ans.Granted {
				since = ans.Since
			}
		case how == "renewed":
			time.Sleep(e.h.TTL / 4)
			if n, err := p.Renew(e.ctx, p.ref(r), e.h.TTL); err == nil {
				since = n.Since
			}
		}
		e.soonFree(e.open(), r)
		if early := trusted(since, e.h.TTL).Sub(driver.Now()); early > 0 {
			e.Errorf("the name of a lease that was %s came free %v before its holder ceased to trust it", how, early)
		}
	}
}

func saysFree(e *env) {
	p, r := e.open(), e.short()
	p.take(r)
	other := e.open()
	next := e.request()
	next.Queue = p.Caps().Queue
	ans, err := other.ask(next)
	if err != nil || ans.Granted || ans.Free < 0 {
		return // it is free by now, or the store does not know
	}
	if ans.Free > e.h.TTL+e.h.soon {
		e.Errorf("Free is %v; the lease is for %v", ans.Free, e.h.TTL)
	}
	time.Sleep(ans.Free)
	e.eventually(0, fmt.Sprintf("granted after Free = %v", ans.Free), func() (bool, error) {
		ans, err = other.ask(next)
		return err != nil || ans.Granted, err
	})
}

// overdue fails if a lease of TTL Harness.TTL has ended too late, where time is exact.
func (e *env) overdue(since driver.Instant) {
	e.Helper()
	if lasted := driver.Now().Sub(since); e.exact() && lasted > e.h.TTL+2*e.h.soon {
		e.Errorf("the lease has lasted for %v; want %v", lasted, e.h.TTL)
	}
}

// lost reports whether err says that a lease has ended.
func lost(err error) bool {
	var l *driver.LostError
	return errors.As(err, &l)
}
