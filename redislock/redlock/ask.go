// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

const (
	// maxSplits is how often TryAcquire asks again because nobody had a quorum.
	maxSplits = 8
	// maxRounds is how often a token may turn out to be too small. While a writer has
	// the lock at a node no other client stores a token there, so two rounds are enough
	// unless locks expire meanwhile. Readers that come at the same time overtake each
	// other.
	maxRounds       = 3
	maxSharedRounds = 10
	// lookEvery is how often a waiter looks, in case a message was lost, and the time
	// after which a node that does not answer is expected to.
	lookEvery = 2 * time.Second
	// foreignLook is how often it looks at a lock of another library, which does not say
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

// failure is why an attempt has failed.
type failure struct {
	kind    kind
	err     error
	after   time.Duration // about when that may have helped
	waiters int
	ends    <-chan ended // of an attempt that was given up, with requests under way
}

// search is one call of TryAcquire or Acquire.
type search struct {
	d      *Driver
	req    *driver.Request
	record string
	tries  int
	floor  uint64           // the largest token seen
	sent   driver.Instant   // when the last requests were, behind the gate
	closed []driver.Instant // until when each node is taken to be closed

	// Of a waiter for an exclusive lease; see queue.go and wait.go.
	standing *claim // in the queues; nil if none is
	turn     *turn  // its
	place    uint64
	yielded  bool            // to waiters that are before this one in the queues of free nodes
	readers  bool            // others were found to share the name
	wished   bool            // and nodes were told to let no more of them in
	wants    []chan struct{} // of each node: closed when the last wish was answered
	foreign  bool            // a client of another library was found to have the name
	wake     chan struct{}   // of a reader: has room for one
}

func (d *Driver) search(req *driver.Request) *search {
	return &search{d: d, req: req, record: newRecord(req.Holder, req.Why), closed: make([]driver.Instant, len(d.members)),
		wants: make([]chan struct{}, len(d.members))}
}

// lease returns the id of the next attempt. No id is used again once it was ended: an
// ending that comes late would end the later attempt.
func (s *search) lease() string {
	s.tries++
	if s.tries == 1 {
		return s.req.Lease
	}
	return s.req.Lease + "." + strconv.Itoa(s.tries)
}

// ask makes one attempt, behind the gate.
func (s *search) ask(ctx context.Context) (*grant, *failure) {
	d := s.d
	urgency := wanting
	if s.turn.voted() { // votes would expire at the gate
		urgency = timed
	}
	if err := d.enter(ctx, urgency); err != nil {
		return nil, &failure{kind: final, err: err}
	}
	g, f := s.attempt(ctx)
	if f == nil || f.ends == nil || !d.background(func() {
		awaitQuorum(d, f.ends, time.NewTimer(d.timeout(s.req.TTL)))
		d.leave(urgency)
	}) {
		d.leave(urgency)
	}
	return g, f
}

// attempt makes one attempt. One that fails is ended at all nodes, in the background.
func (s *search) attempt(ctx context.Context) (*grant, *failure) {
	d, ttl := s.d, s.req.TTL
	c := s.standing
	if c == nil {
		c = d.claim(s.req.Name, s.lease(), s.record)
		c.shared = s.req.Shared
	}
	defer s.leave()
	rounds := maxRounds
	if s.req.Shared {
		rounds = maxSharedRounds
	}
	for round := 1; ; round++ {
		// Before the clock is read, lest the token be from long before the round; and before
		// the first request: all TTLs begin later.
		since := driver.Now()
		token, err := s.token()
		if err != nil {
			c.end("")
			return nil, &failure{kind: final, err: err}
		}
		t, v, err := s.propose(ctx, c, since, token)
		left := trust(since, ttl).Sub(driver.Now())
		if no := t.failed.disagreement(); no != nil { // also if a quorum has granted: it may have forgotten the agreed settings
			c.end("")
			return nil, &failure{kind: final, err: no}
		}
		switch {
		case err == nil && v == won && left > 0:
			d.grants.Add(1)
			c.grant()
			return &grant{claim: c, token: token, since: since, until: trust(since, ttl)}, nil
		case err != nil || v != again || left <= 0 || round == rounds:
			ends := c.end("")
			return nil, s.failed(t, ends, left, err)
		}
	}
}

// propose makes one round of proposals, and notes what it tells for later ones.
func (s *search) propose(ctx context.Context, c *claim, since driver.Instant, token uint64) (*tally, verdict, error) {
	d := s.d
	d.rounds.Add(1)
	s.sent = since
	answers := c.propose(nodewire.Take, token, s.req.TTL)
	t, v, err := d.count(ctx, s.req.Shared, answers, s.req.TTL, (*tally).forGrant)
	if v == won || v == again {
		// A round is not won with a token below one that a node has reported in it.
		if t.linger(answers, min(t.timeout, driver.Now().Sub(since))); t.over >= token {
			v = again
		}
	}
	s.floor = max(s.floor, t.floor)
	if len(d.members)-t.open-len(t.failed) >= d.quorum {
		d.met.Store(true)
	}
	for _, a := range t.closed {
		s.closed[a.node] = driver.Now().Add(min(a.vote.Closed, lookEvery)) // not longer, as the node may be blessed
	}
	return t, v, err
}

// failed returns why an attempt has failed that was ended.
func (s *search) failed(t *tally, ends <-chan ended, left time.Duration, err error) *failure {
	switch {
	case err != nil:
		return &failure{kind: final, err: err, ends: ends}
	case left <= 0:
		return &failure{kind: split, err: unavailable(fmt.Errorf("a quorum took so long to answer that nothing is left of the TTL of %v: use a longer one", s.req.TTL))}
	}
	s.saw(t.others)
	f := t.failure(s.req.Name)
	if f.kind == silent {
		f.ends = ends
	}
	if s.wished {
		f.waiters = min(f.waiters, t.wishes) // readers wait until the writers have had their turn
	}
	return f
}

// token returns that of the next round: the clock's, or one more than the largest seen.
func (s *search) token() (uint64, error) {
	now := s.d.now()
	switch {
	case now > nodewire.MaxToken:
		return 0, fmt.Errorf("redlock: the clock of this machine says %s, and tokens follow it up to %s: set the clock",
			s.d.clock().Format(time.RFC3339), time.UnixMicro(nodewire.MaxToken).UTC().Format(time.RFC3339))
	case s.floor >= nodewire.MaxToken:
		return 0, fmt.Errorf("redlock: %q has had the largest token, %d, from a client whose clock was wrong: use another name, or delete %s at all nodes when nobody uses it",
			driver.Shorten(s.req.Name), uint64(nodewire.MaxToken), floorSuffix)
	}
	return max(now, s.floor+1), nil
}

// failure returns why there was no quorum.
func (t *tally) failure(name string) *failure {
	d := t.d
	if slices.ContainsFunc(t.failed, miss.silent) { // the others that have not answered are no better
		for i, m := range d.members {
			if !t.heard[i] {
				t.failed.add(m, errSilent)
			}
		}
		t.open = 0
	}
	most := len(d.members) - d.quorum // nodes that may refuse
	f := &failure{waiters: t.waiters, after: t.after()}
	switch {
	case largest(t.others).n > most, len(t.wished) > 0 && len(t.others)+len(t.wished) > most:
		f.kind = held
		f.err = &driver.HeldError{Info: d.info(name, slices.Concat(t.others, t.wished))}
	case len(t.failed) > most:
		f.kind = silent
		f.err = t.failed.err(d, t.timeout)
	case len(t.closed)+len(t.failed) > most:
		f.kind = waiting
		d.tellShut(len(t.closed), f.after)
		f.err = fmt.Errorf("%d of %d nodes: %w; if there are none, end the wait with redlock.Bless",
			len(t.closed), len(d.members), &driver.ClosedError{Left: f.after})
	case len(t.others) > 0 || t.has.n > 0:
		d.splits.Add(1)
		f.kind = split
		f.err = &driver.HeldError{Info: d.info(name, t.others)}
	case len(t.ended) > 0:
		f.err = unavailable(errors.New("the lease id was used before: use a new one"))
	default:
		f.kind = split
		f.err = unavailable(errors.New("others ask for the name all the time"))
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
func (d *Driver) quorumth(waits []time.Duration) time.Duration {
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

// TryAcquire asks once, and again if others ask at the same time.
func (d *Driver) TryAcquire(ctx context.Context, req *driver.Request) (*grant, error) {
	if err := d.usable(ctx, req); err != nil {
		return nil, err
	}
	s := d.search(req)
	for n := 1; ; n++ {
		g, f := s.ask(ctx)
		if g != nil {
			return g, nil
		}
		if errors.Is(f.err, driver.ErrSilent) {
			// Silent nodes refuse at once, and others would be asked as fast as they answer.
			if err := d.sleep(ctx, s.sent.Add(d.timeout(req.TTL)).Sub(driver.Now())); err != nil {
				return nil, err
			}
		}
		if f.kind != split || n > maxSplits {
			return nil, f.err
		}
		if err := d.sleep(ctx, d.lull(n, f.waiters, req.TTL)); err != nil {
			return nil, err
		}
	}
}
