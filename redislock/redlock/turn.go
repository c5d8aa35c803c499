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

// A waiter for an exclusive lease is in the queues of all nodes. A waiter for a shared lease
// is a listener at all nodes: they only tell it that the name may be free. The place of a
// waiter in the queue is the largest token that the waiter had seen when it came. So the
// waiter has the same place at all nodes, whatever the clocks say.
//
// The release of a lease brings the token of the next lease. A node that has the released
// lock gives it, in the same step, to the first waiter of its queue, as if the waiter had
// proposed that token there. The node's message to the waiter is its vote. Nodes may
// disagree about who is first. Then nobody has a quorum, and the waiters go on with
// proposals.
//
// A vote does not say how old it is. So the waiter numbers its requests to be in the queue,
// and knows when it sent each. A vote has the number of the last request that the node
// carried out, so the lock began after this request was sent. The request also brings the
// token that the waiter would propose then, and the lock gets no smaller token. So the vote
// counts like the answer to a proposal that was sent with the request; lab/proof shows that
// one round of such votes is enough.

// claimFor is how long a waiter has a lock that a node has handed to it, unless the waiter
// renews it. The time is short because the waiter may be gone.
const claimFor = time.Second

// turn collects what the nodes tell a waiter. Its events make the client look, or take the name.
type turn struct {
	l     *lease
	lease string // the id of the claim that is in the queues

	mu    sync.Mutex
	sent  []driver.Instant // when each request to be in the queue was sent, by number
	token uint64           // the largest token that nodes have voted for
	votes votes            // for token
	since driver.Instant   // the TTLs of all votes began later
	free  bool             // since the last request a node has said that the name may be free
	soon  *time.Timer      // sends the next event; nil if none is due
}

// asks records a request that is sent now, and returns its number.
func (t *turn) asks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.free = append(t.sent, driver.Now()), false
	return len(t.sent) - 1
}

// told handles a message. If a quorum has voted, or cannot vote any more, the client gets an event at once. Otherwise it
// gets one after the other nodes have had the time to tell of the same release. The caller holds d.mu.
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
	case t.votes.n > 0 && t.free: // nodes disagree: no quorum will vote
		t.tell(0)
	case t.votes.n > 0:
		t.tell(d.patience())
	case t.l.req.Shared: // the nodes tell all readers; these ask at different times, before the writers
		t.tell(d.pause(0, int(t.l.waiters.Load()), t.l.req.TTL))
	default:
		t.tell(d.round())
	}
}

// ignores reports whether a message belongs to no request of this waiter, or is a vote with a token that cannot win: one
// smaller than another vote's, or greater after a quorum has voted. The caller holds mu.
func (t *turn) ignores(m nodewire.Message) bool {
	return m.Seq < 0 || m.Seq >= len(t.sent) || m.Token > 0 && m.Token < t.token || m.Token > t.token && t.granted()
}

// tell sends the client an event after a pause. An event that is due already keeps its time. The caller holds mu.
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

// event returns the event for the client: a grant if a quorum has voted, else a look. It is a look, too, if the votes will
// soon expire, or if the caller does not renew, and so needs the whole TTL. The caller holds mu.
func (t *turn) event() driver.Event {
	req := &t.l.req
	e := driver.Event{Kind: driver.Look, Name: req.Name, Lease: req.Lease}
	claim := min(req.TTL, claimFor)
	until := trust(t.since, claim)
	if t.votes.n >= t.l.d.quorum && req.Renewed && until.Sub(driver.Now()) >= claim/2 {
		e.Kind, e.Heard = driver.Granted, driver.Now()
		e.Grant = driver.Answer{Granted: true, Token: t.token, Waited: true, Handle: t.l, Session: t,
			Since: until.Add(driver.Drift(req.TTL) - req.TTL)} // so that the client trusts the lease until the claim ends
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

// granted reports whether a quorum has voted, so that the client may trust the lease. A node that then votes with a greater
// token has carried out another request of this waiter than the quorum has. The caller holds mu.
func (t *turn) granted() bool {
	return t.votes.n >= t.l.d.quorum && driver.Now() < trust(t.since, min(t.l.req.TTL, claimFor))
}

// won returns the token of a lease that a quorum has voted for, and an instant before the TTLs of all votes began.
func (t *turn) won() (token uint64, since driver.Instant, ok bool) {
	if t == nil {
		return 0, 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token, t.since, t.votes.n >= t.l.d.quorum
}

// read has the reader look if a quorum was free when the reader came to listen: these nodes have sent their messages, perhaps, and
// send no more.
func (t *turn) read(answers <-chan reply[nodewire.State]) {
	d, free := t.l.d, 0
	_ = gather(d.base, d, nil, answers, nil, func(a reply[nodewire.State]) bool {
		if a.err == nil && waitOf(a.answer, true) == 0 {
			free++
		}
		return free >= d.quorum
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if free >= d.quorum && d.waiting[t.lease] == t {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.tell(max(d.pause(0, int(t.l.waiters.Load()), t.l.req.TTL), time.Millisecond))
	}
}

// forget makes the client ignore further messages to this waiter.
func (t *turn) forget() {
	t.l.d.mu.Lock()
	delete(t.l.d.waiting, t.lease)
	t.l.d.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
}

// enqueue asks all nodes to put the waiter in their queues. If the waiter is a writer that has found readers, enqueue
// leaves or renews its wish.
func (l *lease) enqueue() (<-chan reply[nodewire.State], error) {
	c, t := l.has.claim, l.has.turn
	if t == nil {
		c = l.next()
		t = &turn{l: l, lease: c.lease}
		l.set(standing{claim: c, turn: t})
		l.d.mu.Lock()
		l.d.waiting[c.lease] = t
		l.d.mu.Unlock()
	}
	seq := t.asks() // before token reads the clock, as in an attempt
	token, err := l.token()
	if err != nil {
		return nil, err
	}
	p := nodewire.Place{Place: l.place, For: l.placeFor(), Token: token, Seq: seq, TTL: min(l.req.TTL, claimFor)}
	if l.readers {
		l.wished, p.Wish = true, min(l.req.TTL, wishFor)
	}
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
	for _, t := range d.waiting { // messages to any waiter may have been lost
		t.mu.Lock()
		t.tell(max(d.round(), time.Millisecond))
		t.mu.Unlock()
	}
}

// nextToken returns the token of the lease that follows a lease with token. It returns 0 if
// no larger token is possible; then the nodes hand nothing over.
func (d *store) nextToken(token uint64) uint64 {
	if now := d.now(); now <= nodewire.MaxToken && token < nodewire.MaxToken {
		return max(now, token+1)
	}
	return 0
}

// handedFor is how long a client remembers that it has handed a name over. A caller that asks for the name again meanwhile
// joins the queues without a proposal, which would only cost the nodes time.
const handedFor = 100 * time.Millisecond

// handOver records that the name was handed over to a lease with this token.
func (d *store) handOver(name string, token uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handed[name] = token
	time.AfterFunc(handedFor, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.handed, name)
	})
}

// comesBack reports whether this client has just handed the name over. Then it gives the lease its place in the queues.
func (l *lease) comesBack() bool {
	d := l.d
	d.mu.Lock()
	defer d.mu.Unlock()
	token, ok := d.handed[l.req.Name]
	if !ok || l.req.Shared {
		return false
	}
	delete(d.handed, l.req.Name)
	l.waits, l.floor, l.place = true, token, token
	return true
}
