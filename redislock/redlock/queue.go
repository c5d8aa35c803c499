// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// A waiter for an exclusive lease is in the queues of all nodes. Its place is the
// largest token that it had seen when it came, so it is the same at all of them, whatever
// the clocks say.
//
// Whoever releases a lease chooses the token of the next one. A node that has the
// released lock gives it, in the same step, to the first waiter of its queue, as if that
// waiter had proposed that token there. The message to the waiter is the node's vote.
// Nodes may disagree about who is first, and then nobody has a quorum; the waiters go on
// with proposals.
//
// A vote does not say how old it is. The waiter numbers its requests to be in the queue,
// and knows when it sent each: no lock that follows one of them has begun before that.
// Each request also has the token that the waiter would propose then, and no lock that follows
// it gets a smaller one. So such a vote is one for a proposal that has been under way
// since the request was sent; lab/proof shows that one round of them is enough.

// claimFor is how long a lock stays with a waiter that it was handed to, unless the
// waiter asks for more. It is short since the waiter may be gone.
const claimFor = time.Second

// turn is what the nodes have told a waiter.
type turn struct {
	quorum  int
	wake    chan struct{} // of the search
	settled chan struct{} // has room for one: a quorum has voted, or will not

	mu    sync.Mutex
	sent  []driver.Instant // when the requests to be in the queue were sent, by number
	token uint64           // the largest that nodes have voted for
	votes votes
	since driver.Instant // the TTLs of all votes began later
	free  bool           // since the last request a node has told that the name may be free
}

// asks returns the number of a request that is sent now.
func (t *turn) asks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.free = append(t.sent, driver.Now()), false
	if t.votes.n < t.quorum {
		select {
		case <-t.settled: // by what was told before
		default:
		}
	}
	return len(t.sent) - 1
}

// told handles a message.
func (t *turn) told(m nodewire.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Seq < 0 || m.Seq >= len(t.sent) || m.Token > 0 && m.Token < t.token {
		return
	}
	if m.Token > t.token {
		t.token, t.votes, t.since = m.Token, votes{}, t.sent[m.Seq]
	}
	if m.Token > 0 {
		t.votes.add(m.Run)
		t.since = min(t.since, t.sent[m.Seq])
	} else {
		t.free = true
	}
	if t.votes.n >= t.quorum || t.free {
		signal(t.settled)
	}
	signal(t.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// voted reports whether a node has voted. A nil turn has no votes.
func (t *turn) voted() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.votes.n > 0
}

// won returns the token of a lease that a quorum has voted for, and until when it is
// trusted.
func (t *turn) won(ttl time.Duration) (token uint64, until driver.Instant, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token, trust(t.since, min(ttl, claimFor)), t.votes.n >= t.quorum
}

// takeTurn returns the grant that a quorum of nodes has voted for, or nil if the waiter has
// to propose: if there is none, if little is left of its time, or if the caller does not
// renew, and so needs the whole TTL.
func (s *search) takeTurn() *grant {
	if s.standing == nil {
		return nil
	}
	ttl := s.req.TTL
	token, until, ok := s.turn.won(ttl)
	if !ok || !s.req.Renewed || until.Sub(driver.Now()) < min(ttl, claimFor)/2 {
		return nil
	}
	s.d.grants.Add(1)
	c := s.standing
	c.grant()
	s.leave()
	return &grant{claim: c, token: token, since: until.Add(driver.Drift(ttl) - ttl), until: until}
}

// enqueue asks all nodes to have the waiter in their queues.
func (s *search) enqueue() (<-chan reading, error) {
	if s.standing == nil {
		c := s.d.claim(s.req.Name, s.lease(), s.record)
		s.standing, s.turn = c, &turn{quorum: s.d.quorum, wake: s.wake, settled: make(chan struct{}, 1)}
		s.d.mu.Lock()
		s.d.waiting[c.lease] = s.turn
		s.d.mu.Unlock()
	}
	seq := s.turn.asks() // before the clock is read for the token, as in ask
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	p := nodewire.Place{Place: s.place, For: s.placeFor(), Token: token, Seq: seq, TTL: min(s.req.TTL, claimFor)}
	return s.standing.enqueue(p, s.req.TTL), nil
}

// leave ends that messages about the standing claim are heard.
func (s *search) leave() {
	if s.standing != nil {
		s.d.mu.Lock()
		delete(s.d.waiting, s.standing.lease)
		s.d.mu.Unlock()
		s.standing, s.turn = nil, nil
	}
}

// told handles a message of a node.
func (d *Driver) told(m nodewire.Message) {
	if m.Broken {
		d.broken(m.Lease, m.News)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if m.Lease != "" {
		if t := d.waiting[m.Lease]; t != nil {
			t.told(m)
		}
		return
	}
	for _, t := range d.waiting {
		signal(t.wake) // messages may have been lost
	}
}

// handedOver are the names that others were waiting for when this participant released
// them. If it asks again at once it gets into the queue without proposing: that would
// only cost the nodes time.
type handedOver struct {
	token uint64 // of the next lease
	till  driver.Instant
}

const (
	// maxHandedOver bounds the names that are known.
	maxHandedOver = 1024
	handedFor     = 100 * time.Millisecond
)

func (d *Driver) handOver(name string, token uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handed == nil || len(d.handed) >= maxHandedOver {
		d.handed = make(map[string]handedOver)
	}
	d.handed[name] = handedOver{token, driver.Now().Add(handedFor)}
}

// takeHandedOver returns the token of the next lease if the name was handed over just now.
func (d *Driver) takeHandedOver(name string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, ok := d.handed[name]
	delete(d.handed, name)
	if !ok || driver.Now() >= h.till {
		return 0
	}
	return h.token
}

// nextToken returns the token of the lease that follows one with token, or 0 if the lock is
// not to be handed over.
func (d *Driver) nextToken(token uint64) uint64 {
	if now := d.now(); now <= nodewire.MaxToken && token < nodewire.MaxToken {
		return max(now, token+1)
	}
	return 0
}
