// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

const (
	// maxSplits is how often a caller that does not wait asks again after a split vote.
	maxSplits = 8
	// maxRounds is how many rounds an attempt has to find a token that is large enough. While
	// a writer has the lock at a node, no other client stores a token there. So two rounds are
	// enough unless locks expire meanwhile. Readers that come at the same time overtake each
	// other, so they have maxSharedRounds.
	maxRounds       = 3
	maxSharedRounds = 10
	// foreignLook is how often a waiter looks at a lock of another library, which sends no
	// message when it releases. A client expects such locks only if it has a Pattern.
	foreignLook = 200 * time.Millisecond
)

// kind is what a failed request can wait for.
type kind int

const (
	final   kind = iota // nothing: it fails for good
	silent              // silent nodes answer again
	held                // the holder releases
	split               // a time at which the other clients do not ask
	waiting             // closed nodes open again
)

// failure is why a lease was not granted.
type failure struct {
	kind    kind
	err     error          // of the kinds final and silent
	ended   bool           // the lease was ended before
	sent    driver.Instant // when the requests were sent; 0 if none was
	holders []driver.Held
	rank    int           // in the queue
	after   time.Duration // about when the name may be free
	waiters int
	ends    <-chan reply[ended] // the endings of an attempt that failed while requests were under way
}

// failure returns f in the form that the client gets.
func (f *failure) failure() *driver.Failure {
	known := driver.FailureOf(f.err)
	known.Maybe, known.Silent = known.Maybe && f.sent != 0, f.kind == silent
	known.Lasting, known.Ended = known.Lasting || f.ended || errors.Is(f.err, driver.ErrClosed), f.ended
	return &known
}

// forGood returns a failure that will not go away: the same request fails again.
func forGood(err error) *failure {
	return &failure{kind: final, err: &driver.Failure{Err: err, Lasting: true}}
}

// try makes one attempt, behind the gate. If nodes are silent, the attempt counts at the gate until a quorum has
// answered its ending.
func (l *lease) try(ctx context.Context) *failure {
	d := l.d
	if err := d.enter(ctx, wanting); err != nil {
		return &failure{kind: final, err: err}
	}
	f := l.attempt(ctx)
	if f == nil || f.ends == nil || !d.background(func() {
		ctx, cancel := context.WithTimeout(d.base, d.timeout(l.req.TTL))
		defer cancel()
		answered := 0
		_ = gather(ctx, d, nil, f.ends, nil, func(reply[ended]) bool {
			answered++
			return answered == d.quorum
		})
		d.leave(wanting)
	}) {
		d.leave(wanting)
	}
	return f
}

// attempt makes one attempt. If it fails, attempt ends it at the nodes, in the background.
func (l *lease) attempt(ctx context.Context) *failure {
	c := l.has.claim
	if c == nil {
		c = l.next()
	}
	rounds := maxRounds
	if l.req.Shared {
		rounds = maxSharedRounds
	}
	for round := 1; ; round++ {
		// Take since before the token, so that the token is not older than the round; and
		// before the first request, so that all TTLs begin later.
		since := driver.Now()
		token, err := l.token()
		if err != nil {
			return l.failed(ctx, c, forGood(err))
		}
		t, v, err := l.propose(ctx, c, since, token)
		if no := t.failed.disagreement(); no != nil { // even if a quorum has granted: those nodes may have forgotten the agreed settings
			return l.failed(ctx, c, forGood(no))
		}
		switch {
		case err != nil:
			return l.failed(ctx, c, &failure{kind: final, err: err, sent: since})
		case v == won:
			l.granted(c, token, since)
			return nil
		case v != again || round == rounds || driver.Now() >= trust(since, l.req.TTL):
			l.saw(t.others)
			f := t.failure(l.req.Name)
			f.sent = since
			if l.wished {
				f.waiters = min(f.waiters, t.wishes) // count the writers only: waiting readers come after them
			}
			return l.failed(ctx, c, f)
		}
	}
}

// failed ends the claim of an attempt that has failed. If a quorum has voted for the claim meanwhile, failed renews it
// instead: the client may have received that grant, and trust it. Later votes do not count.
func (l *lease) failed(ctx context.Context, c *claim, f *failure) *failure {
	if l.has.turn != nil {
		l.has.turn.forget()
		if f, done := l.askAgain(ctx); done {
			return f
		}
	}
	l.set(standing{})
	if l.waits && l.readers && f.kind != silent && f.kind != final {
		_, _ = l.enqueue() // its wish ends with the claim: without another wish, readers would come in before its next look
	}
	ends := c.end("", 0)
	switch {
	case f.kind == silent || f.kind == final:
		f.ends = ends
	case l.waits && l.req.Shared: // a reader stays a listener; otherwise writers would hand the name over among themselves
		if answers, err := l.enqueue(); err == nil && f.kind == held { // else it asks again anyway
			t := l.has.turn
			l.d.background(func() { t.read(answers) })
		}
	}
	return f
}

// propose makes one round of proposals. For later rounds it records the largest token, and which nodes are closed.
func (l *lease) propose(ctx context.Context, c *claim, since driver.Instant, token uint64) (*tally, verdict, error) {
	d := l.d
	d.rounds.Add(1)
	answers := c.propose(nodewire.Take, token, l.req.TTL, l.req.TTL)
	t, v, err := d.count(ctx, nodewire.Take, l.req.Shared, answers, l.req.TTL)
	if v == won || v == again {
		// The token of a round must be greater than every token that a node reports in the round.
		if t.linger(answers, min(t.timeout, driver.Now().Sub(since))); t.over >= token {
			v = again
		}
	}
	l.floor = max(l.floor, t.floor)
	for _, a := range t.closed {
		l.closed[a.node] = driver.Now().Add(min(a.answer.Closed, lookEvery)) // no longer: an operator may bless the node
	}
	return t, v, err
}

// token returns the token of the next round: the clock, or one more than the largest token seen if that is greater.
func (l *lease) token() (uint64, error) {
	now := l.d.now()
	switch {
	case now > nodewire.MaxToken:
		return 0, fmt.Errorf("redlock: the clock of this machine says %s, and tokens follow it up to %s: set the clock",
			l.d.clock().Format(time.RFC3339), time.UnixMicro(nodewire.MaxToken).UTC().Format(time.RFC3339))
	case l.floor >= nodewire.MaxToken:
		return 0, fmt.Errorf("redlock: %q has had the largest token, %d, from a client whose clock was wrong: use another name, or delete %s at all nodes when nobody uses it",
			driver.Shorten(l.req.Name), uint64(nodewire.MaxToken), floorSuffix)
	}
	return max(now, l.floor+1), nil
}

// failure returns why the round has no quorum.
func (t *tally) failure(name string) *failure {
	d := t.d
	if slices.ContainsFunc(t.failed, miss.silent) { // if one node is silent, so are the others without an answer
		t.giveUp()
	}
	most := len(d.members) - d.quorum // nodes that may refuse
	f := &failure{waiters: t.waiters, after: t.after()}
	switch {
	case largest(t.others).n > most, len(t.wished) > 0 && len(t.others)+len(t.wished) > most:
		f.kind = held
		f.holders = d.info(name, slices.Concat(t.others, t.wished)).Holders
	case len(t.failed) > most:
		f.kind = silent
		f.err = t.failed.err(d, t.timeout)
	case len(t.closed)+len(t.failed) > most:
		f.kind = waiting
		d.tellShut(len(t.closed), f.after)
	case len(t.ended) > 0 && len(t.others) == 0 && t.has.n == 0:
		f.err, f.ended = errEnded, true
	default:
		f.kind, f.holders = split, d.info(name, t.others).Holders
	}
	return f
}

// after returns about how long it takes until a quorum of nodes can grant.
func (t *tally) after() time.Duration {
	var waits []time.Duration
	for _, s := range slices.Concat(t.others, t.wished) {
		waits = append(waits, waitOf(s, t.shared))
	}
	for _, a := range t.closed {
		waits = append(waits, a.answer.Closed)
	}
	for range len(t.failed) + t.open {
		waits = append(waits, lookEvery)
	}
	return t.d.quorumth(waits)
}

// quorumth returns the time until a quorum of nodes is ready. waits has one entry for each
// node that is not ready: the time until it is.
func (d *store) quorumth(waits []time.Duration) time.Duration {
	slices.Sort(waits)
	if ready := len(d.members) - len(waits); ready < d.quorum {
		return waits[d.quorum-ready-1]
	}
	return 0
}

// excludes reports whether the locks in s keep out another lease, shared or exclusive.
func excludes(s nodewire.State, shared bool) bool {
	return len(s.Locks) > 0 && !(shared && s.Locks[0].Shared)
}

// waitOf returns how long locks and wishes keep out another lease, shared or exclusive.
func waitOf(s nodewire.State, shared bool) time.Duration {
	left := time.Duration(0)
	if shared && s.Wished > 0 {
		left = s.Wished + time.Millisecond
	}
	for _, l := range s.Locks {
		switch {
		case !excludes(s, shared):
		case l.Left < 0:
			left = max(left, lookEvery)
		default:
			left = max(left, l.Left+time.Millisecond)
		}
	}
	return left
}
