// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// lease is the Handle of a lease: what the next request about it needs to know. The client makes one Ask about it at a
// time, and no End during an Ask. Renewals and Ends may run at the same time.
type lease struct {
	d      *store
	req    driver.Request // the first one
	record string
	tries  int
	floor  uint64           // the largest token seen
	closed []driver.Instant // until when each node counts as closed

	// Of a waiter; see look.go and turn.go.
	waits   bool // it joins the queues
	place   uint64
	yielded bool // it has let the waiters before it propose first
	readers bool // it is a writer, and has found readers
	wished  bool // it has left a wish at nodes
	foreign bool // it has found a lock of another library
	splits  int  // split votes in a row

	since driver.Instant // before the requests that granted it were sent

	waiters atomic.Int32 // about how many wait

	mu  sync.Mutex // guards has
	has standing
}

// standing is what a lease has at the nodes.
type standing struct {
	claim *claim         // in the queues, or granted; nil if there is none
	turn  *turn          // of a claim in the queues, else nil
	token uint64         // of a claim that was granted, else 0
	until driver.Instant // when a claim that was granted ends
}

func (d *store) lease(req *driver.Request) *lease {
	return &lease{d: d, req: *req, record: newRecord(req.Holder, req.Why), closed: make([]driver.Instant, len(d.members))}
}

// next returns a claim for the next attempt. Each attempt has an id of its own: with the same
// id, a late ending of one attempt would end the next one, too.
func (l *lease) next() *claim {
	id := l.req.Lease
	if l.tries++; l.tries > 1 {
		id += "." + strconv.Itoa(l.tries)
	}
	c := l.d.claim(l.req.Name, id, l.record)
	c.shared = l.req.Shared
	return c
}

// errEnded is the error of a lease that was ended while its client waited for it.
var errEnded = fmt.Errorf("%w: the lease has ended before this client knew that it was granted", driver.ErrUncertain)

// Ask implements driver.Store. If an attempt fails, the store itself ends what the attempt has left at nodes.
func (d *store) Ask(ctx context.Context, r *driver.Request) (driver.Answer, error) {
	if err := d.check(r); err != nil {
		return driver.Answer{}, &driver.Failure{Err: err, Lasting: true}
	}
	err := d.usable(ctx)
	if err == nil {
		err = d.settle(ctx)
	}
	if err != nil {
		return driver.Answer{}, notSent(err)
	}
	l, again := r.Handle.(*lease)
	if !again {
		l = d.lease(r)
	}
	f := l.ask(ctx, r.Queue)
	switch {
	case f == nil:
		return driver.Answer{Granted: true, Token: l.standing().token, Waited: true, Since: l.since, Handle: l, Session: l}, nil
	case f.kind == final || f.kind == silent:
		fail := f.failure()
		fail.Maybe = fail.Maybe || l.has.turn != nil // nodes have it in their queues
		return driver.Answer{Handle: l, Clock: driver.Clock{Sent: f.sent}}, fail
	}
	return l.refused(f, r.Queue), nil
}

// notSent returns the failure of a request that was not sent.
func notSent(err error) error {
	f := driver.FailureOf(err)
	f.Maybe = false
	return &f
}

// refused returns the answer to a request that was not granted.
func (l *lease) refused(f *failure, queue bool) driver.Answer {
	ans := driver.Answer{Holders: f.holders, Rank: f.rank, Free: f.after, Session: l, Handle: l}
	switch f.kind {
	case split: // nobody has the name; others ask for it at the same time
		l.splits++
		ans.Again = l.d.lull(l.splits, f.waiters, l.req.TTL)
	case waiting:
		ans.Closed = f.after
	}
	if f.kind != split {
		l.splits, ans.Again = 0, l.again()
	}
	l.waiters.Store(int32(f.waiters))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has.turn != nil {
		ans.Session = l.has.turn
	}
	if !queue && f.kind != waiting {
		ans.Rank = max(ans.Rank, 1)
	}
	return ans
}

// again returns the time after which a waiter looks again.
func (l *lease) again() time.Duration {
	pause := lookEvery
	if l.foreign && l.d.layout.Pattern != "" {
		pause = foreignLook
	}
	return l.d.jitter(min(pause, l.req.TTL/3))
}

// ask asks for the lease, and returns nil if it was granted.
func (l *lease) ask(ctx context.Context, queue bool) *failure {
	if f, done := l.askAgain(ctx); done {
		return f
	}
	switch {
	case !queue:
		return l.once(ctx)
	case !l.waits && !l.comesBack():
		f := l.try(ctx)
		if f == nil || f.kind == final || f.kind == silent {
			return f
		}
		l.waits, l.place = true, l.floor
	}
	if !l.has.turn.voted() {
		if f := l.look(ctx); f != nil {
			return f
		}
	}
	if f, done := l.askAgain(ctx); done { // the name was handed over meanwhile
		return f
	}
	return l.try(ctx)
}

// once asks for a caller that does not wait.
func (l *lease) once(ctx context.Context) *failure {
	f := l.try(ctx)
	for n := 1; f != nil && f.kind == split && n <= maxSplits; n++ {
		if err := l.d.sleep(ctx, l.d.lull(n, f.waiters, l.req.TTL)); err != nil {
			return &failure{kind: final, err: err}
		}
		f = l.try(ctx)
	}
	if f != nil && errors.Is(f.err, errSilentNodes) { // silent nodes fail at once: a caller in a loop would ask the others as fast as they answer
		if err := l.d.sleep(ctx, f.sent.Add(l.d.timeout(l.req.TTL)).Sub(driver.Now())); err != nil {
			f.err = err
		}
	}
	return f
}

// askAgain renews a lease that was granted, or that a quorum has voted for. The lease still has the name, or may take it
// again if nobody else has had it. done is false if the lease has nothing, or has lost it.
func (l *lease) askAgain(ctx context.Context) (f *failure, done bool) {
	has := l.standing()
	if has.token == 0 {
		return nil, false
	}
	if err := l.d.enter(ctx, timed); err != nil {
		return &failure{kind: final, err: err}, true
	}
	defer l.d.leave(timed)
	since := driver.Now()
	err := l.heal(ctx, has, l.req.TTL)
	var lost *driver.LostError
	switch {
	case err == nil && driver.Now() < has.until:
		l.granted(has.claim, has.token, since)
		return nil, true
	case err == nil: // too late: another lease may have been granted, and the nodes may then have handed the name to this one again
	case !errors.As(err, &lost):
		granted := driver.FailureOf(err)
		granted.Maybe = true // the nodes have it until it is ended
		return &failure{kind: silent, err: &granted, sent: since}, true
	case lost.Reason == driver.Broken:
		return &failure{kind: final, err: errEnded, ended: true, sent: since}, true
	}
	has.claim.end("", 0)
	l.set(standing{})
	return nil, false
}

// granted records that c was granted. since is before the requests were sent.
func (l *lease) granted(c *claim, token uint64, since driver.Instant) {
	c.grant()
	l.since = since
	l.set(standing{claim: c, token: token, until: since.Add(l.req.TTL)})
}

// set sets what the lease has. The client then ignores messages about an earlier claim in the queues.
func (l *lease) set(has standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.has.turn; t != nil && t != has.turn {
		t.forget()
	}
	l.has = has
}

// standing returns what the lease has. If a quorum has voted for the claim, it is granted from now on.
func (l *lease) standing() standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.has.turn
	token, since, ok := t.won()
	// The votes count only until then. Later the nodes may have voted for others, and for this lease again with a greater token.
	if until := trust(since, min(l.req.TTL, claimFor)); ok && driver.Now() < until {
		t.forget()
		l.has.claim.grant()
		l.has = standing{claim: l.has.claim, token: token, until: until}
	}
	return l.has
}
