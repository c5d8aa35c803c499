// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-go/pawl/internal/nodemodel"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// node is a simulated master. It can crash, forget, and have a wrong clock.
type node struct {
	w    *world
	id   int    // from 1
	lane string // its name

	mu    sync.Mutex
	run   int // the number of its process, from 1
	down  bool
	model nodemodel.Model
	clock clock
}

// clock is the clock of one node. It is right at first.
type clock struct {
	since time.Duration // when it was set last
	shown time.Duration // what it showed then
	pace  float64       // how much faster than time it runs
}

func (c clock) at(t time.Duration) time.Duration {
	d := t - c.since
	return c.shown + d + time.Duration(float64(d)*c.pace)
}

func (c *clock) set(now, ahead time.Duration, pace float64) {
	*c = clock{now, c.at(now) + ahead, pace}
}

func newNode(w *world, id int) *node {
	n := &node{w: w, id: id, lane: NodeLane(id), run: 1}
	n.model = nodemodel.Model{
		Now:      func() time.Time { return w.rec.begin.Add(n.local()) },
		Run:      func() string { return n.lane + "." + strconv.Itoa(n.run) },
		Tell:     func(m nodewire.Message) { w.link(w.owner(m.Lease), id).message(m) },
		Remember: w.plan.TTL,
		Order: func(a, b string) int { // ids are random
			return cmp.Or(cmp.Compare(w.number(a), w.number(b)), cmp.Compare(a, b))
		},
	}
	return n
}

// local returns what the node's clock shows. n.mu is held.
func (n *node) local() time.Duration { return n.clock.at(n.w.now()) }

// until returns when a time by the node's clock comes. n.mu is held.
func (n *node) until(t time.Time) time.Duration { return n.w.now() + t.Sub(n.model.Now()) }

// propose carries out a proposal of client. n.mu is held.
func (n *node) propose(client int, p nodewire.Proposal) nodewire.Vote {
	kind := Renews
	if n.model.Name(p.Name).Of(p.Lease) == nil {
		kind = Took
	}
	v := n.model.Propose(p)
	if !v.Has {
		n.tell(Refused, client, p.Lease, p.Token, 0, n.why(p, v))
		return v
	}
	l := n.model.Name(p.Name).Of(p.Lease)
	n.tell(kind, client, p.Lease, p.Token, n.until(l.Ends), sharing(l.Shared))
	return v
}

// why says why the node has refused a proposal.
func (n *node) why(p nodewire.Proposal, v nodewire.Vote) string {
	switch {
	case v.Ended:
		return "this lease has ended"
	case len(v.Locks) > 0 && !v.Locks[0].Shared:
		return fmt.Sprintf("lease %d has it", n.w.number(v.Locks[0].Lease))
	case len(v.Locks) > 0 && !p.Shared:
		return "it is shared"
	case v.Closed > 0:
		return "it may have forgotten a lock"
	case p.Mode == nodewire.Take:
		return "a writer waits"
	}
	return "the token is too old"
}

// sharing returns the text of an event about a lock.
func sharing(shared bool) string {
	if shared {
		return "shared"
	}
	return ""
}

// end carries out an ending. n.mu is held.
func (n *node) end(client int, e nodewire.Ending) (had, next bool) {
	s := n.model.Name(e.Name)
	l := s.Of(e.Lease)
	if had, next = n.model.End(e); had {
		n.tell(Freed, client, e.Lease, 0, 0, sharing(l != nil && l.Shared))
	}
	if next {
		l := s.Locks[0]
		n.tell(Took, n.w.owner(l.Lease), l.Lease, l.Token, n.until(l.Ends), sharing(false))
	}
	return had, next
}

// enqueue carries out a request to join the queue. n.mu is held.
func (n *node) enqueue(p nodewire.Place) nodewire.State {
	if n.w.plan.Off.Wishes {
		p.Wish = 0
	}
	return n.model.Enqueue(p)
}

func (n *node) tell(k Kind, client int, lease string, token uint64, until time.Duration, text string) {
	n.w.rec.add(Event{Lane: n.lane, Kind: k, Client: client, Node: n.id, Lease: n.w.number(lease), Token: token, Until: until, Text: text})
}

// crash takes the node down.
func (n *node) crash(until time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	n.tell(Crashed, 0, "", 0, until, "")
}

// boot starts the node again. keep says whether the node still knows what it granted at a time.
func (n *node) boot(keep func(granted time.Duration) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
	n.run++
	for _, lease := range n.model.Forget(func(granted time.Time) bool { return keep(max(0, granted.Sub(n.w.rec.begin))) }) {
		n.tell(Forgot, 0, lease, 0, 0, "")
	}
	if !n.w.plan.Off.Quarantine {
		n.model.Closed = n.model.Now().Add(n.w.plan.TTL)
	}
	n.tell(Back, 0, "", 0, max(n.w.now(), n.until(n.model.Closed)), "")
	for _, links := range n.w.links {
		links[n.id-1].message(nodewire.Message{})
	}
}

// adjust sets the node's clock forward by ahead, and sets its pace.
func (n *node) adjust(ahead time.Duration, pace float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clock.set(n.w.now(), ahead, pace)
	if ahead != 0 {
		n.tell(Steps, 0, "", 0, 0, fmt.Sprintf("%+v", ahead))
	}
}
