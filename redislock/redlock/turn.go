// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// A waiter for an exclusive lease is in the queues of all nodes, and one for a shared lease is a
// listener at all of them, which is only told that the name may be free. A place in the queue is the
// largest token that the waiter had seen when it came, so it is the same at all of them,
// whatever the clocks say.
//
// The release of a lease brings the token of the next one. A node that has the
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

// turn is what the nodes have told a waiter. It has the client look, or take the name.
type turn struct {
	l     *lease
	lease string // of the claim that is in the queues

	mu    sync.Mutex
	sent  []driver.Instant // when the requests to be in the queue were sent, by number
	token uint64           // the largest that nodes have voted for
	votes votes
	since driver.Instant // the TTLs of all votes began later
	free  bool           // since the last request a node has told that the name may be free
	soon  *time.Timer    // of the next event; nil if there is none
}

// asks returns the number of a request that is sent now.
func (t *turn) asks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.free = append(t.sent, driver.Now()), false
	return len(t.sent) - 1
}

// told handles a message. The client gets an event as soon as a quorum has voted. If no quorum may vote, it gets one after
// the other nodes have had the time to tell of the same release. The caller holds d.mu.
func (t *turn) told(m nodewire.Message) {
	d := t.l.d
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ignores(m) {
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
	switch {
	case t.votes.n == d.quorum && m.Token > 0:
		t.tell(0)
	case t.votes.n > d.quorum:
	case t.votes.n > 0 && t.free: // nodes disagree, and no quorum will vote
		t.tell(0)
	case t.votes.n > 0:
		t.tell(d.patience())
	case t.l.req.Shared: // all readers are told, and ask at different times, before the writers
		t.tell(d.pause(0, int(t.l.waiters.Load()), t.l.req.TTL))
	default:
		t.tell(d.round())
	}
}

// ignores reports whether a message follows no request of this waiter, or is a vote with a token that is not the one to be
// won. The caller holds mu.
func (t *turn) ignores(m nodewire.Message) bool {
	return m.Seq < 0 || m.Seq >= len(t.sent) || m.Token > 0 && m.Token < t.token || m.Token > t.token && t.granted()
}

// tell tells the client after a pause. The caller holds mu.
func (t *turn) tell(pause time.Duration) {
	switch {
	case pause == 0:
		t.stop()
		t.l.d.events.Put(t.event())
	case t.soon == nil:
		t.soon = time.AfterFunc(pause, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.soon != nil {
				t.tell(0)
			}
		})
	}
}

// event returns the event for the client. It is a grant if a quorum has voted, unless little is left of the votes' time, or
// the caller does not renew, and so needs the whole TTL. The caller holds mu.
func (t *turn) event() driver.Event {
	req := &t.l.req
	e := driver.Event{Kind: driver.Look, Name: req.Name, Lease: req.Lease}
	claim := min(req.TTL, claimFor)
	until := trust(t.since, claim)
	if t.votes.n >= t.l.d.quorum && req.Renewed && until.Sub(driver.Now()) >= claim/2 {
		t.l.d.grants.Add(1)
		e.Kind, e.Heard = driver.Granted, driver.Now()
		e.Grant = driver.Answer{Granted: true, Token: t.token, Waited: true, Handle: t.l, Session: t,
			Since: until.Add(driver.Drift(req.TTL) - req.TTL)} // trusted as long as the claim
	}
	return e
}

// stop stops the timer. The caller holds mu.
func (t *turn) stop() {
	if t.soon != nil {
		t.soon.Stop()
		t.soon = nil
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

// granted reports whether a quorum has voted, so that the client may trust the lease. A node that votes with a greater token
// has another request of this waiter than they. The caller holds mu.
func (t *turn) granted() bool {
	return t.votes.n >= t.l.d.quorum && driver.Now() < trust(t.since, min(t.l.req.TTL, claimFor))
}

// won returns the token of a lease that a quorum has voted for, and the instant before all of its TTLs.
func (t *turn) won() (token uint64, since driver.Instant, ok bool) {
	if t == nil {
		return 0, 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token, t.since, t.votes.n >= t.l.d.quorum
}

// forget ends that messages are heard.
func (t *turn) forget() {
	t.l.d.mu.Lock()
	delete(t.l.d.waiting, t.lease)
	t.l.d.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
}

// enqueue asks all nodes to have the waiter in their queues.
func (l *lease) enqueue() (<-chan reading, error) {
	c, t := l.has.claim, l.has.turn
	if t == nil {
		c = l.next()
		t = &turn{l: l, lease: c.lease}
		l.set(standing{claim: c, turn: t})
		l.d.mu.Lock()
		l.d.waiting[c.lease] = t
		l.d.mu.Unlock()
	}
	seq := t.asks() // before the clock is read for the token, as in an attempt
	token, err := l.token()
	if err != nil {
		return nil, err
	}
	p := nodewire.Place{Place: l.place, For: l.placeFor(), Token: token, Seq: seq, TTL: min(l.req.TTL, claimFor)}
	return c.enqueue(p, l.req.TTL), nil
}

// told handles a message of a node.
func (d *store) told(m nodewire.Message) {
	if m.Broken {
		id, _, _ := strings.Cut(m.Lease, ".")
		d.events.Put(driver.Event{Kind: driver.Lost, Lease: id, Loss: storekit.HowLost(m.News)})
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
	for _, t := range d.waiting { // messages may have been lost
		t.mu.Lock()
		t.tell(max(d.round(), time.Millisecond))
		t.mu.Unlock()
	}
}

// nextToken returns the token of the lease that follows one with token, or 0 if the lock is
// not to be handed over.
func (d *store) nextToken(token uint64) uint64 {
	if now := d.now(); now <= nodewire.MaxToken && token < nodewire.MaxToken {
		return max(now, token+1)
	}
	return 0
}

// handedOver is a name that others were waiting for when this client released it. A caller that asks for it at once gets
// into the queues without proposing: a proposal only costs the nodes time.
type handedOver struct {
	token uint64 // of the next lease
	till  driver.Instant
}

const (
	// maxHandedOver bounds the names that are known.
	maxHandedOver = 1024
	handedFor     = 100 * time.Millisecond
)

func (d *store) handOver(name string, token uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handed == nil || len(d.handed) >= maxHandedOver {
		d.handed = make(map[string]handedOver)
	}
	d.handed[name] = handedOver{token, driver.Now().Add(handedFor)}
}

// comesBack reports whether this client has handed the name over just now.
func (l *lease) comesBack() bool {
	d := l.d
	d.mu.Lock()
	defer d.mu.Unlock()
	h, ok := d.handed[l.req.Name]
	if !ok || l.req.Shared {
		return false
	}
	delete(d.handed, l.req.Name)
	if driver.Now() < h.till {
		l.waits, l.floor, l.place = true, h.token, h.token
	}
	return l.waits
}
