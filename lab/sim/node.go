// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/internal/nodewire"
)

// node is a simulated master. It follows the text of nodewire.Node, and can crash, forget, and have a wrong clock.
type node struct {
	w    *world
	id   int    // from 1
	lane string // its name

	mu     sync.Mutex
	run    int // the number of its process, from 1
	down   bool
	names  map[string]*named
	closed time.Duration // until when it grants nothing new, by its clock
	clock  clock
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

type mark struct {
	news   string
	forget time.Duration
}

// place is the place of a client in the queue, or among the listeners.
type place struct {
	nodewire.Place
	client int
	ends   time.Duration
}

func newNode(w *world, id int) *node {
	return &node{w: w, id: id, lane: NodeLane(id), run: 1, names: make(map[string]*named)}
}

func (n *node) runID() string { return n.lane + "." + strconv.Itoa(n.run) }

// local returns what the node's clock shows. n.mu is held.
func (n *node) local() time.Duration { return n.clock.at(n.w.now()) }

// at returns what the node keeps about name, without what has ended. n.mu is held.
func (n *node) at(name string) *named {
	s := n.names[name]
	if s == nil {
		s = newNamed()
		n.names[name] = s
	}
	now := n.local()
	s.locks = slices.DeleteFunc(s.locks, func(l *lock) bool { return l.ends <= now })
	maps.DeleteFunc(s.wishes, func(_ string, ends time.Duration) bool { return ends <= now })
	s.leave(func(p *place) bool { return p.ends <= now })
	maps.DeleteFunc(s.ended, func(_ string, m mark) bool { return m.forget <= now })
	return s
}

// look returns the state of the name for clients. n.mu is held.
func (n *node) look(s *named) nodewire.State {
	now := n.local()
	st := nodewire.State{Floor: s.floor.token, Writer: s.floor.writer, Waiters: len(s.listen) + len(s.queue), Wishes: len(s.wishes)}
	for _, l := range s.locks {
		l.Left = l.ends - now
		st.Locks = append(st.Locks, l.Lock)
	}
	for _, ends := range s.wishes {
		st.Wished = max(st.Wished, ends-now)
	}
	return st
}

// wake tells the listeners, and the first of the queue. n.mu is held.
func (n *node) wake(s *named) {
	for _, p := range s.listen {
		n.message(p, 0)
	}
	if len(s.queue) > 0 {
		n.message(s.queue[0], 0)
	}
}

// message tells a waiter that it has the lock, with a token. If token is 0, message tells it that the
// name may be free. n.mu is held.
func (n *node) message(p *place, token uint64) {
	n.w.link(p.client, n.id).message(nodewire.Message{Lease: p.Lease, Token: token, Seq: p.Seq, Run: n.runID()})
}

// hand gives the lock that e has ended to the first of the queue, and reports whether it could. n.mu is held.
func (n *node) hand(s *named, e nodewire.Ending) bool {
	if len(s.listen) > 0 || len(s.queue) == 0 {
		return false
	}
	p, now := s.queue[0], n.local()
	token := max(e.Next, p.Token)
	if token <= s.floor.token || token > nodewire.MaxToken || n.closed > now {
		return false
	}
	s.queue = slices.Delete(s.queue, 0, 1)
	s.floor.store(nodewire.Proposal{Lease: p.Lease, Token: token})
	l := &lock{nodewire.Lock{Lease: p.Lease, Token: token, Record: p.Record, Granted: n.w.rec.begin.Add(now)}, now, now + p.TTL}
	s.locks, s.newest = []*lock{l}, now
	n.tell(Took, p.client, p.Lease, token, n.w.now()+l.ends-now, sharing(false))
	n.message(p, token)
	return true
}

// enqueue carries out a request to join the queue or to leave it. n.mu is held.
func (n *node) enqueue(client int, p nodewire.Place) nodewire.State {
	s := n.at(p.Name)
	if _, over := s.ended[p.Lease]; !over && (s.of(p.Lease) == nil || !s.exclusive()) {
		s.dequeue(p.Lease)
		waits := &place{p, client, n.local() + p.For}
		switch {
		case p.For == 0:
		case p.Shared:
			s.listen = append(s.listen, waits)
		default:
			s.queue = append(s.queue, waits)
			slices.SortFunc(s.queue, func(a, b *place) int {
				return cmp.Or(cmp.Compare(a.Place.Place, b.Place.Place), cmp.Compare(n.w.number(a.Lease), n.w.number(b.Lease)), cmp.Compare(a.Lease, b.Lease)) // ids are random
			})
		}
	}
	st := n.look(s)
	st.Ahead = max(0, slices.IndexFunc(s.queue, func(w *place) bool { return w.Lease == p.Lease }))
	return st
}

// propose carries out a proposal of client. The numbers in the code are the steps of
// nodewire.Proposal. n.mu is held.
func (n *node) propose(client int, p nodewire.Proposal) nodewire.Vote {
	s, now := n.at(p.Name), n.local()
	v := nodewire.Vote{Run: n.runID(), Closed: max(0, n.closed-now)}
	refused := func(why string) nodewire.Vote {
		v.State = n.look(s)
		n.tell(Refused, client, p.Lease, p.Token, 0, why)
		return v
	}
	fits := p.Token > s.floor.token || p.Token == s.floor.token && s.floor.owner == p.Lease
	if m, ok := s.ended[p.Lease]; ok { // 1
		v.Ended, v.News = true, m.news
		return refused("this lease has ended")
	}
	kind := Renews
	l := s.of(p.Lease)
	if l == nil {
		if !n.takable(s, p) { // 2
			return refused(n.whose(s))
		}
		overtaken := p.Token < s.floor.stands && !(p.Shared && p.Token >= s.floor.writer)
		switch { // 3
		case v.Closed > 0:
			return refused("it may have forgotten a lock")
		case p.Mode == nodewire.Take && p.Shared && len(s.wishes) > 0 && !n.w.plan.Off.Wishes:
			return refused("a writer waits")
		case p.Mode == nodewire.Heal && overtaken:
			return refused("the token is too old")
		}
		l = &lock{nodewire.Lock{Lease: p.Lease, Shared: p.Shared, Record: p.Record, Granted: n.w.rec.begin.Add(now)}, now, now}
		if !p.Shared {
			s.locks = nil
		}
		s.locks, s.newest = append(s.locks, l), now
		kind = Took
	}
	v.Has = true // 4
	if p.Queued {
		s.dequeue(p.Lease)
	}
	l.ends = max(l.ends, now+p.TTL)
	if fits { // 5
		s.floor.store(p)
		v.Stored = true
	}
	if fits || p.Mode != nodewire.Take {
		l.Token = p.Token
	}
	v.State = n.look(s)
	v.Locks = nil
	n.tell(kind, client, p.Lease, p.Token, n.w.now()+l.ends-now, sharing(l.Shared))
	return v
}

// end carries out an ending. n.mu is held.
func (n *node) end(client int, e nodewire.Ending) (had, next bool) {
	s := n.at(e.Name)
	if e.Bar || e.News != "" {
		m := s.ended[e.Lease]
		if m.news == "" {
			m.news = e.News
		}
		m.forget = n.local() + n.w.plan.TTL
		s.ended[e.Lease] = m
	}
	if !e.Held {
		s.floor.fail(e.Lease)
	}
	waited := s.dequeue(e.Lease)
	l := s.of(e.Lease)
	if l == nil {
		if waited && len(s.locks) == 0 {
			n.wake(s)
		}
		return false, false
	}
	s.locks = slices.DeleteFunc(s.locks, func(o *lock) bool { return o == l })
	if !l.Shared && e.Held {
		clear(s.wishes)
	}
	n.tell(Freed, client, e.Lease, 0, 0, sharing(l.Shared))
	if len(s.locks) == 0 {
		if next = e.Next > 0 && !l.Shared && n.hand(s, e); !next {
			n.wake(s)
		}
	}
	return true, next
}

// want carries out a wish. n.mu is held.
func (n *node) want(w nodewire.Wish) nodewire.State {
	s := n.at(w.Name)
	_, had := s.wishes[w.Who]
	if w.For > 0 {
		s.wishes[w.Who] = n.local() + w.For
	} else if delete(s.wishes, w.Who); had && len(s.wishes) == 0 {
		n.wake(s)
	}
	return n.look(s)
}

func (n *node) read(names []string) []nodewire.State {
	states := make([]nodewire.State, len(names))
	for i, name := range names {
		states[i] = n.look(n.at(name))
	}
	return states
}

func (n *node) list(prefix string) []string {
	var names []string
	for name := range n.names {
		if strings.HasPrefix(name, prefix) && len(n.at(name).locks) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (n *node) status() nodewire.Status {
	return nodewire.Status{Addr: n.lane, Run: n.runID(), Closed: max(0, n.closed-n.local())}
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

// boot starts the node again. keep says whether the node still knows what it granted at a time. If it has
// forgotten the newest lock of a name, it has lost the floor, the wishes and the queue of the name, too.
func (n *node) boot(keep func(granted time.Duration) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
	n.run++
	for name := range n.names {
		s := n.at(name)
		if keep(s.newest) {
			continue
		}
		left := newNamed()
		for _, l := range s.locks {
			if keep(l.granted) {
				left.locks, left.newest = append(left.locks, l), l.granted
			} else {
				n.tell(Forgot, 0, l.Lease, 0, 0, "")
			}
		}
		n.names[name] = left
	}
	if !n.w.plan.Off.Quarantine {
		n.closed = n.local() + n.w.plan.TTL
	}
	n.tell(Back, 0, "", 0, max(n.w.now(), n.w.now()+n.closed-n.local()), "")
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
