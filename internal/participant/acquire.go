// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Acquire waits until the lease is granted or ctx ends. It waits in the store's queue, or polls a store without one.
// It goes on while the store refuses requests. After a silence of one TTL it returns a *driver.SilentError. If the
// store has never answered and cannot be reached, it returns that error at once. The other errors are those of
// TryAcquire, except driver.ErrHeld. If ctx ends, the error is also a *driver.HeldError or a *driver.ClosedError, if
// the store says what the call waited for.
func (p *Participant) Acquire(ctx context.Context, req *driver.Request) (*Lease, error) {
	ctx, stop, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer p.done(stop)
	p.running.begin()
	defer p.running.end()
	var away outage // it may last for several attempts
	await := func(ctx context.Context, req *driver.Request) (*Lease, error) { return p.await(ctx, req, &away) }
	for lates, pause := 0, minPause; ; pause = min(2*pause, maxPause) {
		before := p.running.now().paused
		l, err := p.attemptOnce(ctx, req, await)
		switch {
		case err == nil:
			return l, nil
		case err == errAgain:
		case isLate(err) && p.running.now().paused > before:
		case isLate(err) && lates < maxLate:
			lates++
		default:
			return nil, err
		}
		if err := pauseFor(ctx, pause/2+p.spread(pause/2)); err != nil {
			return nil, err
		}
		req = renamed(req)
	}
}

// maxLate bounds how often Acquire asks again because a grant came too late to be used.
const maxLate = 3

// errAgain says that the lease was ended before it was granted: ask again, with another id.
var errAgain = errors.New("the lease was ended before it was granted")

// begin registers a call that may wait. It returns a copy of ctx that also ends with Stop, and the argument for done.
func (p *Participant) begin(ctx context.Context) (_ context.Context, stop context.CancelFunc, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(ctx); err != nil {
		return nil, nil, err
	}
	p.calls.Add(1)
	if ctx.Done() != nil && !p.caps.CrossHost { // requests are short, and need not end with Stop
		return ctx, func() {}, nil
	}
	ctx, stop = Until(ctx, p.ctx)
	return ctx, stop, nil
}

func (p *Participant) done(stop context.CancelFunc) {
	stop()
	p.calls.Done()
}

// attemptOnce makes one attempt with ask. It undoes a grant that comes just when the caller gives up, or too late to be
// used.
func (p *Participant) attemptOnce(ctx context.Context, req *driver.Request, ask func(context.Context, *driver.Request) (*Lease, error)) (*Lease, error) {
	seen := p.tokens.seen(req.Name)
	l, err := ask(ctx, req)
	if err == nil && req.Renewed && l.late() {
		// A grant with little time left, and then a pause of the process. The next attempt has
		// an id of its own, because the release of this one may arrive late.
		_ = l.Release(ctx)
		whole := renamed(req)
		whole.Renewed = false
		l, err = ask(ctx, whole)
	}
	if err != nil {
		return nil, err
	}
	if err = p.usable(ctx); err == nil {
		err = checkToken(l.token, seen)
	}
	switch {
	case err != nil:
		l.Discard()
		return nil, err
	case l.late():
		return nil, l.tooLate(ctx)
	}
	p.tokens.saw(req.Name, l.token)
	return l, nil
}

// attempt is a request on its way to a lease.
type attempt struct {
	*Lease
	req  driver.Request
	seen look   // the last answer that did not grant
	own  waiter // used by Acquire

	holders []driver.Held // in that answer, for the error of a caller that gives up
}

// look is an answer that did not grant.
type look struct {
	sent    driver.Instant // before the server's clock showed at
	at      time.Duration  // since 1970
	began   driver.Instant // before the request was sent
	took    time.Duration  // from then until the answer
	session any            // the connection over which events about the name arrive
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
	if again := p.leases[req.Lease]; again != nil { // the caller repeats a call
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
		if !f.Silent && !f.Lasting && ctx.Err() == nil { // the store has answered, with a refusal
			a.p.answered.Store(true)
		}
		a.p.mu.Lock()
		a.doubt = a.doubt || f.Maybe
		f.Maybe = a.doubt // an earlier request may still reach the store
		a.p.mu.Unlock()
		f.Err = Worded(f)
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
	if w := a.waiter; w != nil && w.lost || a.lost != nil { // the event may be newer than this answer
		return driver.Answer{}, errEnded
	}
	a.hold(&ans, term{sent: ans.Since, heard: heard, ttl: a.ttl}, ans.Since)
	if a.unconfirmed { // the event of its end may have been lost
		a.p.confirmSoon()
	}
	return ans, nil
}

// hold makes l a lease that is held, as an answer or an event says. The caller holds mu, so that an event
// about l finds it either waiting or held.
func (l *Lease) hold(a *driver.Answer, t term, since driver.Instant) {
	l.state, l.token, l.spare, l.others, l.since = held, a.Token, a.Spare, a.Waited, since
	if a.Handle != nil {
		l.ref.Handle = a.Handle
	}
	l.term, l.clock = t, l.p.clock(a.Server)
	l.waiter = nil
	if l.wanted != nil && a.Session == nil {
		l.wanted.put()
	}
}

// late reports whether nothing is left of the TTL with which the lease was granted.
func (l *Lease) late() bool {
	return l.p.caps.Expiry && driver.Now() >= l.since.Add(l.ttl-driver.Drift(l.ttl))
}

// maxTokens bounds how many names a client remembers the token of.
const maxTokens = 4096

// tokens remembers the greatest token that the store has granted to this client on each name.
// A store that was restored from a backup grants old tokens again, and only its clients can
// notice.
type tokens struct {
	mu   sync.Mutex
	last map[string]uint64
}

func (t *tokens) seen(name string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[name]
}

func (t *tokens) saw(name string, token uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token <= t.last[name] {
		return
	}
	if t.last == nil || len(t.last) >= maxTokens {
		t.last = make(map[string]uint64)
	}
	t.last[name] = token
}

// checkToken returns an error if a grant has a token that is not greater than seen, the greatest
// token on its name when it was requested.
func checkToken(token, seen uint64) error {
	if token == 0 || token > seen {
		return nil
	}
	return fmt.Errorf("the store granted token %d, and granted %d to this client before: it has gone back to an older state, as after a restore from a backup; "+
		"make it count on from above, or lower the tokens that the resources remember and restart its clients", token, seen)
}
