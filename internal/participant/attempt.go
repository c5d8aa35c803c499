// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// attempt is a request on its way to a lease.
type attempt struct {
	*Lease
	req  driver.Request
	seen look   // the last answer that did not grant
	own  waiter // of Acquire

	holders []driver.Held // of that answer, for a caller that gives up
}

// look is an answer that did not grant, and over what events about the name arrived when the request
// was sent.
type look struct {
	sent    driver.Instant // before the server's clock showed at
	at      time.Duration  // since 1970
	began   driver.Instant // before the request was sent
	took    time.Duration  // until the answer came
	session any
}

// attempt begins an attempt. Events find its lease from then on: they may come before the answer.
func (p *Participant) attempt(req *driver.Request) *attempt {
	l := &Lease{p: p, ref: driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots}, ttl: req.TTL}
	if req.Keeps {
		l.wanted = new(wanted)
		_, l.wanted.stop = p.store.Hear(req.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if again := p.leases[req.Lease]; again != nil { // the call is repeated
		l.doubt, l.ref.Handle = again.doubt, again.ref.Handle
	}
	p.leases[req.Lease] = l
	return &attempt{Lease: l, req: *req}
}

// ask asks the store once and records a grant.
func (a *attempt) ask(ctx context.Context, queue bool) (driver.Answer, error) {
	a.p.mu.Lock()
	a.req.Queue, a.req.Handle, a.unconfirmed = queue, a.ref.Handle, false
	a.p.mu.Unlock()
	began := driver.Now()
	ans, err := a.p.store.Ask(ctx, &a.req)
	heard := driver.Now()
	if ans.Handle != nil {
		a.p.mu.Lock()
		a.ref.Handle = ans.Handle
		a.p.mu.Unlock()
	}
	if err != nil {
		f := driver.FailureOf(err)
		if !f.Silent && !f.Lasting && ctx.Err() == nil { // a refusal is an answer, if it comes from the store
			a.p.answered.Store(true)
		}
		a.p.mu.Lock()
		a.doubt = a.doubt || f.Maybe
		f.Maybe = a.doubt // the store may receive an earlier request yet
		a.p.mu.Unlock()
		f = worded(f)
		return ans, &f
	}
	a.p.answered.Store(true)
	a.p.saw(ans.Clock, heard)
	if !ans.Granted {
		a.seen = look{ans.Sent, ans.At, began, heard.Sub(began), ans.Session}
		return ans, nil
	}
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	if w := a.waiter; w != nil && w.lost || a.loss.why != nil { // perhaps after this answer
		return driver.Answer{}, errEnded
	}
	a.hold(&ans, term{sent: ans.Since, heard: heard, ttl: a.ttl}, ans.Since)
	if a.unconfirmed { // somebody may have ended it after this answer
		a.p.confirmSoon()
	}
	return ans, nil
}

// errEnded is why an attempt ends of whose lease an event said that it was ended. The store may have it still, as it may be
// about to ask for it back.
var errEnded = &driver.Failure{
	Err:   fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain),
	Maybe: true, Lasting: true, Ended: true,
}

// giveUp ends an attempt that has failed, and returns its error. What the store may have recorded, it undoes in the
// background, or at once where a request costs nothing.
func (a *attempt) giveUp(f driver.Failure) error {
	p := a.p
	p.mu.Lock()
	a.waiter = nil
	f.Maybe = f.Maybe || a.doubt
	if a.state = unsure; !f.Maybe {
		a.forget()
	}
	p.mu.Unlock()
	if f.Maybe {
		a.Discard()
	}
	return f.Err
}

// lossOf returns err if it says that a lease is lost.
func lossOf(err error) *driver.LostError {
	var lost *driver.LostError
	switch {
	case errors.As(err, &lost):
		return lost
	case errors.Is(err, driver.ErrLost), errors.Is(err, driver.ErrReleased):
		return &driver.LostError{Reason: driver.Gone}
	}
	return nil
}
