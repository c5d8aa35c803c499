// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"github.com/pawl-go/pawl/driver"
)

var downgradeChecks = []Check{
	{Name: "a-downgrade-lets-readers-in-and-no-writer", Needs: []string{"Downgrades", "Shared"}, run: downgrades},
	{Name: "a-downgrade-of-a-lease-that-has-ended-says-so", Needs: []string{"Downgrades", "Shared"}, run: downgradeLate},
}

// downgrades: those that wait to read come in with the lease, up to the first that waits to write.
func downgrades(e *env) {
	p, r := e.open(), e.request()
	first := p.take(r)
	reader, writer, read, write := e.open(), e.open(), shared(e.request()), e.request()
	var ans, last driver.Answer
	queue := p.Caps().Queue
	if queue {
		ans, last = reader.wait(read), writer.wait(write)
	}
	lower := shared(e.request())
	lower.Instead = r.Lease
	sent := driver.Now()
	second := p.take(lower)
	if second.Since < sent || p.Caps().Fencing && second.Token <= first.Token {
		e.Errorf("the downgrade grants token %d, after %d, from %v after it was sent", second.Token, first.Token, second.Since.Sub(sent))
	}
	again := *lower
	again.Instead = ""
	if again := p.take(&again); again.Token != second.Token {
		e.Errorf("asked again, the lease has token %d after %d", again.Token, second.Token)
	}
	p.gone(r)
	if _, err := p.Renew(e.ctx, p.ref(r), e.h.TTL); !lost(err) && p.Caps().Expiry {
		e.Errorf("Renew of the lease that was downgraded = %v; want a LostError", err)
	}
	p.not(r, driver.Lost)
	if queue {
		reader.turn(read, ans)
		writer.refused(write)
	} else {
		reader.take(read)
	}
	e.held(r)
	p.end(lower)
	reader.end(read)
	if queue {
		writer.turn(write, last)
		writer.end(write)
	}
	e.free(r)
}

func downgradeLate(e *env) {
	p, r := e.open(), e.request()
	p.take(r)
	p.end(r)
	lower := func() *driver.Request {
		l := shared(e.request())
		l.Instead = r.Lease
		return l
	}
	if ans, err := p.ask(lower()); ans.Granted || !lost(err) {
		e.Errorf("Ask in place of a lease that has ended = granted %v, %v; want a LostError", ans.Granted, err)
	}
	e.free(r)
	other, next := e.open(), e.request()
	other.take(next)
	if ans, err := p.ask(lower()); ans.Granted || !lost(err) {
		e.Errorf("Ask in place of a lease that another has followed = granted %v, %v; want a LostError", ans.Granted, err)
	}
	e.held(next)
	other.end(next)
}
