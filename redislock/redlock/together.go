// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// together is one request to each of some nodes. It gives up a node that is silent: the caller gets an error, and
// the request goes on, since its answer says that the node is well again, and how far away it is.
type together struct {
	ctx    context.Context
	cancel context.CancelFunc
	timed  bool           // they are renewals
	limit  time.Duration  // for which a node may answer nothing
	end    driver.Instant // when all requests end: of a node that answers others, too

	mu     sync.Mutex
	timer  *time.Timer    // runs look
	looked driver.Instant // when it did last, or when the requests were sent
	left   int            // requests that have not ended
	open   []*sending     // those among them that are under way
}

// sending is a request to one node. It calls gone to give the node up. gone is nil once the caller has its answer.
type sending struct {
	m    *member
	gone func()
}

// together returns what n requests have in common, which are sent now, about a lease with the TTL. If they are renewals
// nobody is in a hurry to give a node up: another renewal is sent beside one without an answer.
func (d *store) together(n int, ttl time.Duration, timed bool) *together {
	now := driver.Now()
	t := &together{timed: timed, limit: d.timeout(ttl), end: now.Add(d.last(ttl)), looked: now, left: n}
	if timed && d.fixed == 0 {
		t.limit = ttl / 3
	}
	t.ctx, t.cancel = context.WithCancel(d.base)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(t.limit, t.look)
	return t
}

// look gives up the nodes that have answered nothing since the last look.
func (t *together) look() {
	now := driver.Now()
	var silent []func()
	t.mu.Lock()
	over := now >= t.end
	if now.Sub(t.looked) > t.limit*3/2 && !over {
		t.looked = now.Add(-t.limit / 2) // the process was stopped: the answers may be there
		t.timer.Reset(t.limit / 2)
		t.mu.Unlock()
		return
	}
	for _, r := range t.open {
		switch {
		case r.gone == nil:
		case !r.m.answers(t.looked) || over:
			silent, r.gone = append(silent, r.gone), nil
		}
	}
	if t.looked = now; !over && t.left > 0 {
		t.timer.Reset(min(t.limit, t.end.Sub(now)))
	}
	t.mu.Unlock()
	for _, gone := range silent {
		gone()
	}
	if over {
		t.cancel()
	}
}

// ended records the end of a request, and reports whether somebody waits for it.
func (t *together) ended(r *sending) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	waited := r.gone != nil
	r.gone = nil
	t.open = slices.DeleteFunc(t.open, func(o *sending) bool { return o == r })
	if t.left--; t.left == 0 {
		t.timer.Stop()
		t.cancel()
	}
	return waited
}

// send runs f in the background, with the context of t, and calls done with its result: earlier if the node is
// silent, and at once if f is not run.
func send[T any](m *member, t *together, f func(context.Context) (T, error), done func(T, error)) {
	fail := func(err error) {
		var none T
		done(none, err)
	}
	r := &sending{m, func() { fail(errSilent) }}
	if err := m.enter(t.timed); err != nil {
		t.ended(r)
		fail(err)
		return
	}
	t.mu.Lock()
	t.open = append(t.open, r)
	t.mu.Unlock()
	if !m.d.background(func() {
		v, err := f(t.ctx)
		m.leave(err)
		if t.ended(r) {
			done(v, err)
		}
	}) {
		m.leave(errClosed)
		t.ended(r)
		fail(unavailable(errClosed))
	}
}
