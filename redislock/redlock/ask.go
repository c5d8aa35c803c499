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
	// maxSplits is how often a caller that does not wait asks again because nobody had a quorum.
	maxSplits = 8
	// maxRounds is how often a token may turn out to be too small. While a writer has
	// the lock at a node no other client stores a token there, so two rounds are enough
	// unless locks expire meanwhile. Readers that come at the same time overtake each
	// other.
	maxRounds       = 3
	maxSharedRounds = 10
	// foreignLook is how often a waiter looks at a lock of another library, which does not say
	// when it lets go. Only with a Pattern such locks are to be expected.
	foreignLook = 200 * time.Millisecond
)

// kind says what may help after a failure.
type kind int

const (
	final   kind = iota // nothing
	silent              // that nodes answer again
	held                // that the holder lets go
	split               // to ask again, at another time than the others
	waiting             // that nodes are open again
)

// failure is why a lease was not granted.
type failure struct {
	kind    kind
	err     error          // if it is final, or nodes are silent
	ended   bool           // the lease was ended before
	sent    driver.Instant // when the requests were
	holders []driver.Held
	rank    int           // in the queue
	after   time.Duration // about when the name may be free
	waiters int
	ends    <-chan ended // of an attempt that was given up, with requests under way
}

// failure returns f for the client.
func (f *failure) failure() *driver.Failure {
	known := driver.FailureOf(f.err)
	known.Maybe, known.Silent = known.Maybe && f.sent != 0, f.kind == silent
	known.Lasting, known.Ended = known.Lasting || f.ended || errors.Is(f.err, driver.ErrClosed), f.ended
	return &known
}

// forGood returns a failure after which a repetition fails as well.
func forGood(err error) *failure {
	return &failure{kind: final, err: &driver.Failure{Err: err, Lasting: true}}
}

// try makes one attempt, behind the gate.
func (l *lease) try(ctx context.Context) *failure {
	d := l.d
	if err := d.enter(ctx, wanting); err != nil {
		return &failure{kind: final, err: err}
	}
	f := l.attempt(ctx)
	if f == nil || f.ends == nil || !d.background(func() {
		awaitQuorum(d, f.ends, time.NewTimer(d.timeout(l.req.TTL)))
		d.leave(wanting)
	}) {
		d.leave(wanting)
	}
	return f
}

// attempt makes one attempt. One that fails is ended at all nodes, in the background.
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
		// Before the clock is read, lest the token be from long before the round; and before
		// the first request: all TTLs begin later.
		since := driver.Now()
		token, err := l.token()
		if err != nil {
			return l.failed(ctx, c, forGood(err))
		}
		t, v, err := l.propose(ctx, c, since, token)
		if no := t.failed.disagreement(); no != nil { // also if a quorum has granted: it may have forgotten the agreed settings
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
				f.waiters = min(f.waiters, t.wishes) // readers wait until the writers have had their turn
			}
			return l.failed(ctx, c, f)
		}
	}
}

// failed ends the claim of an attempt that has failed, unless a quorum has voted for it meanwhile: the client may have heard
// of that grant, and trust it. No votes count after this.
func (l *lease) failed(ctx context.Context, c *claim, f *failure) *failure {
	if l.has.turn != nil {
		l.has.turn.forget()
		if f, done := l.askAgain(ctx); done {
			return f
		}
	}
	ends := c.end("", 0)
	l.set(standing{})
	switch {
	case f.kind == silent || f.kind == final:
		f.ends = ends
	case l.waits && l.req.Shared: // a reader goes on listening, or writers hand the name over to each other
		_, _ = l.enqueue()
	}
	return f
}

// propose makes one round of proposals, and notes what it tells for later ones.
func (l *lease) propose(ctx context.Context, c *claim, since driver.Instant, token uint64) (*tally, verdict, error) {
	d := l.d
	d.rounds.Add(1)
	answers := c.propose(nodewire.Take, token, l.req.TTL, l.req.TTL)
	t, v, err := d.count(ctx, nodewire.Take, l.req.Shared, answers, l.req.TTL)
	if v == won || v == again {
		// A round is not won with a token below one that a node has reported in it.
		if t.linger(answers, min(t.timeout, driver.Now().Sub(since))); t.over >= token {
			v = again
		}
	}
	l.floor = max(l.floor, t.floor)
	for _, a := range t.closed {
		l.closed[a.node] = driver.Now().Add(min(a.vote.Closed, lookEvery)) // not longer, as the node may be blessed
	}
	return t, v, err
}

// token returns the token of the next round: the clock, or one more than the largest seen.
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

// failure returns why there was no quorum.
func (t *tally) failure(name string) *failure {
	d := t.d
	if slices.ContainsFunc(t.failed, miss.silent) { // the others that have not answered are no better
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
		d.splits.Add(1)
		f.kind, f.holders = split, d.info(name, t.others).Holders
	}
	return f
}

// after returns in about how long a quorum of nodes could grant.
func (t *tally) after() time.Duration {
	var waits []time.Duration
	for _, s := range slices.Concat(t.others, t.wished) {
		waits = append(waits, waitOf(s, t.shared))
	}
	for _, a := range t.closed {
		waits = append(waits, a.vote.Closed)
	}
	for range len(t.failed) + t.open {
		waits = append(waits, lookEvery)
	}
	return t.d.quorumth(waits)
}

// quorumth returns the time after which a quorum is left if each node that is not
// ready needs one of waits.
func (d *store) quorumth(waits []time.Duration) time.Duration {
	slices.Sort(waits)
	if ready := len(d.members) - len(waits); ready < d.quorum {
		return waits[d.quorum-ready-1]
	}
	return 0
}

// excludes reports whether locks of others keep out a lease of the kind.
func excludes(s nodewire.State, shared bool) bool {
	return len(s.Locks) > 0 && !(shared && s.Locks[0].Shared)
}

// waitOf returns for how long a lease of the kind is kept out.
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
