// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// together is a group of requests, one to each of several nodes. It gives up a silent node: the caller gets an
// error. The request itself goes on, because a late answer says that the node is well again, and how far away it is.
type together struct {
	ctx    context.Context
	cancel context.CancelFunc
	timed  bool           // the requests are renewals
	limit  time.Duration  // how long a node may answer nothing
	end    driver.Instant // when all requests end, even to a node that answers other requests

	mu     sync.Mutex
	timer  *time.Timer    // runs look
	looked driver.Instant // when look ran last; at first, when the requests were sent
	left   int            // how many requests have not ended
	open   []*sending     // the requests under way
}

// sending is a request to one node. gone gives the node up. It is nil once the caller has its answer.
type sending struct {
	m    *member
	gone func()
}

// together returns a group of n requests about a lease with this TTL. The caller sends them now. A group of renewals (timed)
// gives up a node late, because the client sends another renewal beside one without an answer.
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
		t.looked = now.Add(-t.limit / 2) // the process was stopped: it may have answers to read
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

// ended records the end of a request, and reports whether the caller still waits for it.
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

// send runs f in the background, with the context of t, and calls done with the result. If the node is silent, send
// calls done earlier, with an error. If it cannot run f, it calls done at once.
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

// ask sends a request about a lease with this TTL to these nodes at once. The channel gets one reply from each; done gets
// the reply first. The reply of a silent node is an error, even if the node answers later.
func ask[T any](d *store, nodes []int, ttl time.Duration, timed bool, f func(ctx context.Context, node int) (T, error), done func(reply[T])) <-chan reply[T] {
	replies := make(chan reply[T], len(nodes))
	if len(nodes) == 0 {
		return replies
	}
	all := d.together(len(nodes), ttl, timed)
	for _, i := range nodes {
		send(d.members[i], all, func(ctx context.Context) (T, error) { return f(ctx, i) }, func(answer T, err error) {
			r := reply[T]{i, answer, err}
			done(r)
			replies <- r
		})
	}
	return replies
}
