// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/redislock/redlock"
)

// node is a master: the text of redlock.Node, and what can befall a server.
type node struct {
	w    *world
	id   int    // from 1
	lane string // its name

	mu     sync.Mutex
	run    int // of its process, from 1
	down   bool
	names  map[string]*named
	closed time.Duration // by its clock: it grants nothing new before
	clock  clock
}

// clock is that of one node. It is right at first.
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

// named is what a node keeps of one name. Times are by its clock.
type named struct {
	lock    redlock.Lock
	granted time.Duration
	ends    time.Duration
	floor   uint64
	owner   string
	ended   map[string]mark
	ears    []*ear
}

type mark struct {
	news   string
	forget time.Duration
}

// ear is one Listen.
type ear struct {
	client int
	wake   func()
	gone   bool
}

func newNode(w *world, id int) *node {
	return &node{w: w, id: id, lane: NodeLane(id), run: 1, names: make(map[string]*named)}
}

func (n *node) runID() string { return n.lane + "." + strconv.Itoa(n.run) }

// local is what its clock shows. n.mu is held.
func (n *node) local() time.Duration { return n.clock.at(n.w.now()) }

// at returns what the node has for name, now. n.mu is held.
func (n *node) at(name string) *named {
	s := n.names[name]
	if s == nil {
		s = &named{ended: make(map[string]mark)}
		n.names[name] = s
	}
	now := n.local()
	if s.lock.Lease != "" && s.ends <= now {
		s.lock = redlock.Lock{}
	}
	return s
}

// look returns the lock as it is told to clients. n.mu is held.
func (n *node) look(s *named) redlock.Lock {
	l := s.lock
	if l.Lease != "" {
		l.Left = s.ends - n.local()
	}
	l.Floor = s.floor
	for _, e := range s.ears {
		if !e.gone {
			l.Waiters++
		}
	}
	return l
}

// propose carries out a proposal of client. The numbers are those of the rules of
// redlock.Proposal. n.mu is held.
func (n *node) propose(client int, p redlock.Proposal) redlock.Vote {
	s, now := n.at(p.Name), n.local()
	v := redlock.Vote{Run: n.runID(), Closed: max(0, n.closed-now)}
	refused := func(why string) redlock.Vote {
		v.Lock = n.look(s)
		n.tell(Refused, client, p.Lease, p.Token, 0, why)
		return v
	}
	fits := p.Token > s.floor || p.Token == s.floor && s.owner == p.Lease
	if m, ok := s.ended[p.Lease]; ok && m.forget >= now { // 1
		v.Ended, v.News = true, m.news
		return refused("this lease has ended")
	}
	kind := Renews
	if s.lock.Lease != p.Lease {
		if s.lock.Lease != p.From || p.Mode == redlock.Extend { // 2
			return refused(n.whose(s, p))
		}
		if v.Closed > 0 { // 3
			return refused("it may have forgotten a lock")
		}
		if p.Mode == redlock.Heal && !fits {
			return refused("the token is too old")
		}
		s.lock = redlock.Lock{Lease: p.Lease, Record: p.Record, Granted: n.w.rec.begin.Add(now)}
		s.granted, s.ends = now, now
		kind = Took
	}
	v.Has = true // 4
	s.ends = max(s.ends, now+p.TTL)
	if fits { // 5
		s.floor, s.owner, s.lock.Token = p.Token, p.Lease, p.Token
		v.Stored = true
	}
	v.Lock = n.look(s)
	n.tell(kind, client, p.Lease, p.Token, n.w.now()+s.ends-now, "")
	return v
}

// whose says why a proposal is refused whose lease does not have the lock.
func (n *node) whose(s *named, p redlock.Proposal) string {
	if s.lock.Lease == "" {
		return "the lease is not known here"
	}
	return fmt.Sprintf("lease %d has it", n.w.number(s.lock.Lease))
}

// end carries out an ending. n.mu is held.
func (n *node) end(client int, e redlock.Ending) bool {
	s := n.at(e.Name)
	if e.Bar || e.News != "" {
		m := s.ended[e.Lease]
		if m.news == "" {
			m.news = e.News
		}
		m.forget = n.local() + n.w.plan.TTL
		s.ended[e.Lease] = m
	}
	if s.lock.Lease != e.Lease {
		return false
	}
	s.lock = redlock.Lock{}
	n.tell(Freed, client, e.Lease, 0, 0, "")
	for _, ear := range s.ears {
		n.w.link(ear.client, n.id).push(ear)
	}
	return true
}

func (n *node) read(names []string) []redlock.Lock {
	locks := make([]redlock.Lock, len(names))
	for i, name := range names {
		locks[i] = n.look(n.at(name))
	}
	return locks
}

func (n *node) list(prefix string) []string {
	var names []string
	for name := range n.names {
		if strings.HasPrefix(name, prefix) && n.at(name).lock.Lease != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (n *node) status() redlock.Status {
	return redlock.Status{Addr: n.lane, Run: n.runID(), Closed: max(0, n.closed-n.local())}
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

// boot starts the node again. It has forgotten what keep does not want.
func (n *node) boot(keep func(granted time.Duration) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
	n.run++
	for name := range n.names {
		s := n.at(name)
		if keep(s.granted) {
			continue
		}
		if s.lock.Lease != "" {
			n.tell(Forgot, 0, s.lock.Lease, 0, 0, "")
		}
		n.names[name] = &named{ended: make(map[string]mark), ears: s.ears}
	}
	if !n.w.plan.Off.Quarantine {
		n.closed = n.local() + n.w.plan.TTL
	}
	n.tell(Back, 0, "", 0, max(n.w.now(), n.w.now()+n.closed-n.local()), "")
	for _, s := range n.names {
		for _, e := range s.ears {
			n.w.link(e.client, n.id).push(e) // they hear again, and look
		}
	}
}

// adjust sets the node's clock forward, or changes its pace.
func (n *node) adjust(ahead time.Duration, pace float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clock.set(n.w.now(), ahead, pace)
	if ahead != 0 {
		n.tell(Steps, 0, "", 0, 0, fmt.Sprintf("%+v", ahead))
	}
}
