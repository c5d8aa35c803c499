// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// turn returns the grant of r, of which events tell within soon. A waiter that has heard nothing looks only
// when the answer ans said that the name may be free.
func (p *party) turn(r *driver.Request, ans driver.Answer) driver.Answer {
	p.e.Helper()
	return p.turnIn(r, ans, 0)
}

// turnIn is turn for a name that comes free within d.
func (p *party) turnIn(r *driver.Request, ans driver.Answer, d time.Duration) driver.Answer {
	p.e.Helper()
	end := driver.Now().Add(d + p.e.h.soon)
	lookAt := func(ans driver.Answer) driver.Instant {
		next := end
		if ans.Rank == 0 && ans.Free >= 0 {
			next = driver.Now().Add(max(ans.Free, time.Millisecond))
		}
		if often := p.Caps().Look; d > 0 && often > 0 { // else events have to tell
			next = min(next, driver.Now().Add(often))
		}
		return next
	}
	look := lookAt(ans)
	for {
		ev, ok := p.event(r, min(look, end), driver.Granted, driver.Look)
		if driver.Now() >= end && !ok {
			p.e.Fatalf("no event has told the first waiter within %v that it has its turn", d+p.e.h.soon)
		}
		if ok && ev.Kind == driver.Look && ev.Grant.Free > 0 {
			look = min(look, driver.Now().Add(ev.Grant.Free))
			continue
		}
		session := ans.Session
		var err error
		if ans, err = p.ask(r); err != nil {
			p.e.Fatalf("Ask(%.80q) = %v; want an answer", r.Name, err)
		}
		if ans.Granted {
			missed := ev.For > 0 && ans.At-ev.Grant.At >= ev.For // on a busy machine; this is another grant
			if ok && ev.Kind == driver.Granted && !missed {
				p.matches(r, ev, ans, session)
			}
			return ans
		}
		look = lookAt(ans)
	}
}

// matches checks that an event that grants a name is worth what the answer to the next look says.
func (p *party) matches(r *driver.Request, ev driver.Event, ans driver.Answer, session any) {
	p.e.Helper()
	switch g := ev.Grant; {
	case ev.Name != r.Name:
		p.e.Errorf("the event that grants %.80q is about %q", r.Name, ev.Name)
	case g.Token != ans.Token || g.Spare != ans.Spare:
		p.e.Errorf("the event grants token %d and %d after it, and the answer %d and %d", g.Token, g.Spare, ans.Token, ans.Spare)
	case g.Session == nil || g.Session != session:
		p.e.Errorf("the event came over %v; the answer before said %v, so that the client has to look", g.Session, session)
	case g.Since == 0 && (ev.For <= 0 || ev.Heard == 0 || g.At == 0):
		p.e.Errorf("the event says neither since when the lease lasts nor for how long: %+v", ev)
	}
}
