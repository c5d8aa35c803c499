// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// A writer that finds readers leaves a wish at each node, with its place in the queue. The
// node then admits no more readers. The writer renews the wish each time it looks. If the writer dies, its wish
// keeps readers out for at most wishFor.

// longestYield bounds how long a waiter lets the waiters before it propose first: they may be gone,
// and the name free.
const longestYield = 200 * time.Millisecond

// wishFor is how long a node remembers a wish that its writer does not renew. A wish keeps readers from a free
// name no longer than that.
const wishFor = lookEvery + time.Second

// placeFor returns how long a node remembers a place in its queue that the waiter does not renew. PLACES of enqueue.lua
// is the longest such time.
func (l *lease) placeFor() time.Duration { return min(l.req.TTL, 3*lookEvery) }

// look returns nil if a quorum of nodes is free for the lease, and this waiter may propose.
func (l *lease) look(ctx context.Context) *failure {
	f := l.lookOnce(ctx)
	if f != nil && f.kind != final && l.readers && !l.wished {
		f = l.lookOnce(ctx)
	}
	return f
}

func (l *lease) lookOnce(ctx context.Context) *failure {
	d := l.d
	if err := d.enter(ctx, wanting); err != nil {
		return &failure{kind: final, err: err}
	}
	defer d.leave(wanting)
	sent := driver.Now()
	v := new(view)
	defer func() { l.saw(v.states) }()
	if err := l.read(ctx, v); err != nil {
		return &failure{kind: final, err: err, sent: sent}
	}
	f := &failure{kind: held, sent: sent, waiters: v.waiters, rank: v.rank, after: d.quorumth(v.waits)}
	switch {
	case len(v.failed) > len(d.members)-d.quorum:
		f.kind, f.err = silent, v.failed.as(driver.ErrUnavailable, d, d.timeout(l.req.TTL))
	case v.free < d.quorum:
		f.holders = d.info(l.req.Name, v.states).Holders
	case v.ahead == 0 || l.yielded:
		l.yielded = false
		return nil
	default: // the waiters before this one propose first, but only once: a waiter that is gone must not hold up the others
		l.yielded = true
		f.rank, f.after = 0, min(time.Duration(v.ahead)*max(2*d.round(), time.Millisecond), longestYield)
	}
	return f
}

// view is what nodes have said about a name.
type view struct {
	states  []nodewire.State
	waits   []time.Duration // of each node that is not free, the time until it is
	failed  misses          // nodes without an answer; they count as not free
	free    int
	rank    int // how many waiters are before this one in the queue
	ahead   int // the same at free nodes only
	waiters int
}

// read asks all nodes, and returns as soon as it is certain whether a quorum is free. Once a quorum has answered, it waits
// for the others only for a grace.
func (l *lease) read(ctx context.Context, v *view) error {
	d := l.d
	answers, err := l.enqueue()
	if err != nil {
		return err
	}
	return gather(ctx, d, d.ctx.Done(), answers, d.needed, func(a reply[nodewire.State]) bool {
		l.add(v, a)
		return v.free >= d.quorum || len(v.waits)-len(v.failed) > len(d.members)-d.quorum
	})
}

func (l *lease) add(v *view, a reply[nodewire.State]) {
	if a.err != nil {
		v.failed.add(l.d.members[a.node], a.err)
		v.waits = append(v.waits, lookEvery)
		return
	}
	st := a.answer
	if c := l.has.claim; c != nil && len(st.Locks) == 1 && st.Locks[0].Lease == c.lease {
		st.Locks = nil // the node has handed the lock to this waiter
	}
	v.states = append(v.states, st)
	v.waiters, v.rank = max(v.waiters, st.Waiters), max(v.rank, st.Ahead)
	l.floor = max(l.floor, st.Floor)
	if wait, shut := waitOf(st, l.req.Shared), l.closed[a.node].Sub(driver.Now()); wait > 0 {
		v.waits = append(v.waits, wait)
	} else if shut > 0 {
		// This node is closed. A proposal would fail, and ending it at the other
		// nodes would wake all waiters, this one too.
		v.waits = append(v.waits, shut)
	} else {
		v.free, v.ahead = v.free+1, max(v.ahead, st.Ahead)
	}
}

// saw records whether a client of another library has the name, and whether readers keep this writer out.
func (l *lease) saw(states []nodewire.State) {
	l.foreign = false
	for _, st := range states {
		l.foreign = l.foreign || len(st.Locks) > 0 && st.Locks[0].Record == ""
		l.readers = l.readers || !l.req.Shared && len(st.Locks) > 0 && st.Locks[0].Shared
	}
}
