// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// tally is the count of one round of proposals.
type tally struct {
	d       *store
	timeout time.Duration
	open    int                    // nodes that have not answered
	heard   []bool                 // which nodes have answered, by index
	has     votes                  // of nodes where the lease has the lock
	stored  votes                  // of nodes that have stored its token, too
	shared  bool                   // the claim is shared
	renews  bool                   // the lease has its token: a renewal needs locks only
	others  []nodewire.State       // of nodes where others have what the claim wants
	wished  []nodewire.State       // of nodes where a writer waits for the readers to go
	closed  []reply[nodewire.Vote] // of nodes that grant nothing now
	ended   []nodewire.Vote        // of nodes where the lease is among the ended ones
	free    int                    // nodes that would have granted with a greater token, or without wishes
	failed  misses                 // nodes without an answer
	floor   uint64                 // the largest token seen
	over    uint64                 // the largest token that the lease's own has to exceed
	waiters int                    // at the node with the most waiters
	wishes  int                    // at the node with the most wishes
}

// votes counts each server once, even if two nodes are the same server.
type votes struct {
	n    int
	runs []string
}

func (v *votes) add(run string) {
	if run != "" {
		if slices.Contains(v.runs, run) {
			return
		}
		v.runs = append(v.runs, run)
	}
	v.n++
}

func (t *tally) add(a reply[nodewire.Vote]) {
	t.open--
	t.heard[a.node] = true
	if a.err != nil {
		t.failed.add(t.d.members[a.node], a.err)
		return
	}
	v := a.answer
	t.floor = max(t.floor, v.Floor)
	switch {
	case v.Stored: // it is the lease's own
	case t.shared:
		t.over = max(t.over, v.Writer) // readers that ask at the same time come in any order
	default:
		t.over = max(t.over, v.Floor)
	}
	t.waiters, t.wishes = max(t.waiters, v.Waiters), max(t.wishes, v.Wishes)
	switch {
	case v.Has:
		t.has.add(v.Run)
		if v.Stored || t.renews {
			t.stored.add(v.Run)
		}
	case v.Ended:
		t.ended = append(t.ended, v)
	case excludes(v.State, t.shared):
		t.others = append(t.others, v.State)
	case t.shared && v.Wished > 0:
		t.wished = append(t.wished, v.State)
		if v.Closed == 0 {
			t.free++
		}
	case v.Closed > 0:
		t.closed = append(t.closed, a)
	default:
		t.free++
	}
}

// verdict is the outcome of a round, once it is certain.
type verdict int

const (
	undecided verdict = iota
	won               // a quorum
	again             // a quorum of locks, but not of tokens: ask with a greater one
	lost              // no quorum is possible any more
)

// decide returns the verdict: a quorum must have stored the token.
func (t *tally) decide() verdict {
	q := t.d.quorum
	switch {
	case t.stored.n >= q:
		return won
	case t.has.n+t.open < q:
		return lost
	case t.stored.n+t.open < q && t.has.n >= q:
		return again
	}
	return undecided
}

// count adds up the answers to proposals that were sent now, until the verdict is certain, or ctx or the store ends.
// Once a quorum has answered, an attempt waits for the other nodes only for a grace: in a split vote, a silent node
// would hold up all clients. A renewal waits for longer, because its lease needs that node.
func (d *store) count(ctx context.Context, mode nodewire.Mode, shared bool, answers <-chan reply[nodewire.Vote], ttl time.Duration) (*tally, verdict, error) {
	t := &tally{d: d, shared: shared, renews: mode == nodewire.Heal, timeout: d.timeout(ttl), open: len(d.members), heard: make([]bool, len(d.members))}
	n := len(d.members)
	runs := make([]string, 2*n)
	t.has.runs, t.stored.runs = runs[:0:n], runs[n:n]
	grace := d.needed
	if t.renews {
		grace = nil
	}
	sent, v := driver.Now(), undecided
	err := gather(ctx, d, d.ctx.Done(), answers, grace, func(a reply[nodewire.Vote]) bool {
		t.add(a)
		v = t.decide()
		return v != undecided
	})
	if err != nil {
		return t, lost, err
	}
	d.gate.paced(sent, driver.Now().Sub(sent) > min(silence, ttl/3)/2)
	return t, v, nil
}

// giveUp counts the nodes that have not answered as silent.
func (t *tally) giveUp() {
	for i, m := range t.d.members {
		if !t.heard[i] {
			t.heard[i] = true
			t.failed.add(m, errSilent)
		}
	}
	t.open = 0
}

// linger waits for further answers when the outcome is certain, but not for silent nodes.
// took is how long the round took: linger waits for as long again. If a quorum of nodes
// that have forgotten grants a lease, the other nodes may know that its token is too small.
func (t *tally) linger(answers <-chan reply[nodewire.Vote], took time.Duration) {
	timer := time.NewTimer(took)
	defer timer.Stop()
	for t.open > 0 && t.d.talking(t.heard) {
		select {
		case a := <-answers:
			t.add(a)
		case <-timer.C:
			return
		}
	}
}

// trust returns until when the client trusts a lease whose TTL began at since.
func trust(since driver.Instant, ttl time.Duration) driver.Instant {
	return since.Add(ttl - driver.Drift(ttl))
}
