// SPDX-License-Identifier: Apache-2.0

// Package nodemodel is a node of Redlock in memory, for tests and for the simulator. It follows the text of
// nodewire.Node. Tests of package redlock compare it with the scripts in a server.
package nodemodel

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/internal/nodewire"
)

// Model is the state of one node. The caller makes sure that one goroutine at a time uses it.
type Model struct {
	Now      func() time.Time       // what the clock of the node shows
	Run      func() string          // the id of its run
	Tell     func(nodewire.Message) // sends a message to the client of a lease
	Remember time.Duration          // for how long the node remembers leases that have ended
	Order    func(a, b string) int  // of leases with the same place in the queue
	Closed   time.Time              // the node grants nothing new before

	names map[string]*Named
}

// Named is what a node keeps about one name.
type Named struct {
	Locks  []*Lock   // one exclusive lock, or any number of shared locks
	Newest time.Time // when the node granted the last of them
	Floor
	Wishes    map[string]time.Time
	Ended     map[string]Mark
	Queue     []Waiter
	Listeners []Waiter // readers, in the order in which they came
}

// Lock is a lock that has not ended.
type Lock struct {
	nodewire.Lock
	Ends time.Time
}

// Waiter is a waiter in the queue, or a listener.
type Waiter struct {
	nodewire.Place
	ends time.Time
}

// Mark is what a node remembers about a lease that has ended.
type Mark struct {
	news   string
	forget time.Time
}

// Floor is the largest token stored, and the largest tokens that stand: of all leases, and of writers.
type Floor struct {
	token          uint64
	owner          string // the lease that token was stored for
	stands, writer uint64
	before         [2]uint64 // stands and writer before owner stored a token
}

// Store stores a token for a lease.
func (f *Floor) Store(token uint64, lease string, shared bool) {
	if f.owner != lease {
		f.before = [2]uint64{f.stands, f.writer}
	}
	if f.token, f.owner, f.stands = token, lease, token; !shared {
		f.writer = token
	}
}

// fail takes back the token of an attempt that has failed.
func (f *Floor) fail(lease string) {
	if f.owner == lease {
		f.stands, f.writer = f.before[0], f.before[1]
	}
}

// Name returns what the node keeps about a name, without what has ended.
func (m *Model) Name(name string) *Named {
	s := m.names[name]
	if s == nil {
		if m.names == nil {
			m.names = make(map[string]*Named)
		}
		s = newNamed()
		m.names[name] = s
	}
	now := m.Now()
	s.Locks = slices.DeleteFunc(s.Locks, func(l *Lock) bool { return !l.Ends.After(now) })
	maps.DeleteFunc(s.Wishes, func(_ string, ends time.Time) bool { return !ends.After(now) })
	s.leave(func(w Waiter) bool { return !w.ends.After(now) })
	maps.DeleteFunc(s.Ended, func(_ string, e Mark) bool { return !e.forget.After(now) })
	return s
}

func newNamed() *Named {
	return &Named{Wishes: make(map[string]time.Time), Ended: make(map[string]Mark)}
}

// Of returns the lock of a lease, or nil.
func (s *Named) Of(lease string) *Lock {
	for _, l := range s.Locks {
		if l.Lease == lease {
			return l
		}
	}
	return nil
}

func (s *Named) exclusive() bool { return len(s.Locks) > 0 && !s.Locks[0].Shared }

// takable reports whether a lease may take a lock.
func (s *Named) takable(shared bool) bool {
	if shared {
		return !s.exclusive()
	}
	return len(s.Locks) == 0
}

// dequeue takes a lease out of the queue, or from the listeners, and reports whether it was there.
func (s *Named) dequeue(lease string) bool {
	before := len(s.Queue) + len(s.Listeners)
	s.leave(func(w Waiter) bool { return w.Lease == lease })
	return len(s.Queue)+len(s.Listeners) < before
}

func (s *Named) leave(gone func(Waiter) bool) {
	s.Queue, s.Listeners = slices.DeleteFunc(s.Queue, gone), slices.DeleteFunc(s.Listeners, gone)
}

// Leave takes waiters out of all queues.
func (m *Model) Leave(gone func(Waiter) bool) {
	for _, s := range m.names {
		s.leave(gone)
	}
}

// state returns the state of the name for clients.
func (m *Model) state(s *Named) nodewire.State {
	now := m.Now()
	st := nodewire.State{Floor: s.token, Writer: s.writer, Waiters: len(s.Listeners) + len(s.Queue), Wishes: len(s.Wishes)}
	for _, l := range s.Locks {
		l.Left = l.Ends.Sub(now)
		st.Locks = append(st.Locks, l.Lock)
	}
	slices.SortStableFunc(st.Locks, func(a, b nodewire.Lock) int { return cmp.Compare(a.Left, b.Left) })
	for _, ends := range s.Wishes {
		st.Wished = max(st.Wished, ends.Sub(now))
	}
	return st
}

// message tells a waiter that it has the lock, with a token. If token is 0, message tells it that the name may be free.
func (m *Model) message(w Waiter, token uint64) {
	m.Tell(nodewire.Message{Lease: w.Lease, Token: token, Seq: w.Seq, Run: m.Run()})
}

// wake tells the listeners, and the first of the queue.
func (m *Model) wake(s *Named) {
	for _, w := range s.Listeners {
		m.message(w, 0)
	}
	if len(s.Queue) > 0 {
		m.message(s.Queue[0], 0)
	}
}

// take adds a lock that is granted now.
func (m *Model) take(s *Named, l nodewire.Lock) *Lock {
	now := m.Now()
	l.Granted = now
	taken := &Lock{l, now}
	s.Locks, s.Newest = append(s.Locks, taken), now
	return taken
}

// hand gives the lock that has ended to the first of the queue, and reports whether it could.
func (m *Model) hand(s *Named, next uint64) bool {
	if len(s.Listeners) > 0 || len(s.Queue) == 0 {
		return false
	}
	w := s.Queue[0]
	token := max(next, w.Token)
	if token <= s.token || token > nodewire.MaxToken || m.closed() > 0 {
		return false
	}
	s.Queue = slices.Delete(s.Queue, 0, 1)
	s.Store(token, w.Lease, false)
	l := m.take(s, nodewire.Lock{Lease: w.Lease, Token: token, Record: w.Record})
	l.Ends = l.Ends.Add(w.TTL)
	m.message(w, token)
	return true
}

// Enqueue does what nodewire.Place says.
func (m *Model) Enqueue(p nodewire.Place) nodewire.State {
	s := m.Name(p.Name)
	if _, over := s.Ended[p.Lease]; !over && (s.Of(p.Lease) == nil || !s.exclusive()) {
		s.dequeue(p.Lease)
		waits := Waiter{p, m.Now().Add(p.For)}
		if p.Shared {
			s.Listeners = append(s.Listeners, waits)
		} else {
			s.Queue = append(s.Queue, waits)
			slices.SortFunc(s.Queue, func(a, b Waiter) int {
				return cmp.Or(cmp.Compare(a.Place.Place, b.Place.Place), m.Order(a.Lease, b.Lease))
			})
		}
		if p.Wish > 0 {
			s.Wishes[p.Lease] = m.Now().Add(p.Wish)
		}
	}
	st := m.state(s)
	st.Ahead = max(0, slices.IndexFunc(s.Queue, func(w Waiter) bool { return w.Lease == p.Lease }))
	return st
}

func (m *Model) closed() time.Duration { return max(0, m.Closed.Sub(m.Now())) }

// Propose does what nodewire.Proposal says. The numbers are the steps there.
func (m *Model) Propose(p nodewire.Proposal) (v nodewire.Vote) {
	s := m.Name(p.Name)
	v.Run, v.Closed = m.Run(), m.closed()
	defer func() {
		if v.State = m.state(s); v.Has {
			v.Locks = nil
		}
	}()
	fits := p.Token > s.token || p.Token == s.token && s.owner == p.Lease
	if e, ok := s.Ended[p.Lease]; ok { // 1
		v.Ended, v.News = true, e.news
		return v
	}
	l := s.Of(p.Lease)
	if l == nil {
		overtaken := p.Token < s.stands && !(p.Shared && p.Token >= s.writer)
		switch {
		case !s.takable(p.Shared): // 2
			return v
		case v.Closed > 0, p.Mode == nodewire.Take && p.Shared && len(s.Wishes) > 0, p.Mode == nodewire.Heal && overtaken: // 3
			return v
		case !p.Shared:
			s.Locks = nil
		}
		l = m.take(s, nodewire.Lock{Lease: p.Lease, Shared: p.Shared, Record: p.Record})
	}
	v.Has = true // 4
	if p.Queued {
		s.dequeue(p.Lease)
	}
	if ends := m.Now().Add(p.TTL); ends.After(l.Ends) {
		l.Ends = ends
	}
	if fits { // 5
		s.Store(p.Token, p.Lease, p.Shared)
		v.Stored = true
	}
	if fits || p.Mode != nodewire.Take {
		l.Token = p.Token
	}
	return v
}

// End does what nodewire.Ending says.
func (m *Model) End(e nodewire.Ending) (had, next bool) {
	s := m.Name(e.Name)
	if e.Bar || e.News != "" {
		s.Ended[e.Lease] = Mark{cmp.Or(s.Ended[e.Lease].news, e.News), m.Now().Add(m.Remember)}
	}
	if !e.Held {
		s.fail(e.Lease)
	}
	waited := s.dequeue(e.Lease)
	_, wished := s.Wishes[e.Lease]
	delete(s.Wishes, e.Lease)
	l := s.Of(e.Lease)
	if l == nil {
		if wished && len(s.Wishes) == 0 || waited && len(s.Locks) == 0 {
			m.wake(s)
		}
		return false, false
	}
	s.Locks = slices.DeleteFunc(s.Locks, func(o *Lock) bool { return o == l })
	if !l.Shared && e.Held {
		clear(s.Wishes)
	}
	if e.News != "" {
		m.Tell(nodewire.Message{Lease: e.Lease, Broken: true, News: e.News})
	}
	if len(s.Locks) == 0 {
		if next = e.Next > 0 && !l.Shared && m.hand(s, e.Next); !next {
			m.wake(s)
		}
	}
	return true, next
}

// Read returns the states of names, with their queues.
func (m *Model) Read(names []string) []nodewire.State {
	states := make([]nodewire.State, len(names))
	for i, name := range names {
		s := m.Name(name)
		states[i] = m.state(s)
		for _, w := range s.Queue {
			states[i].Queue = append(states[i].Queue, w.Place)
		}
	}
	return states
}

// List returns the names that begin with prefix and have a lock.
func (m *Model) List(prefix string) (names []string) {
	for name := range m.names {
		if strings.HasPrefix(name, prefix) && len(m.Name(name).Locks) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Status returns the state of the node.
func (m *Model) Status(addr string) nodewire.Status {
	return nodewire.Status{Addr: addr, Run: m.Run(), Closed: m.closed()}
}

// Forget makes the node lose the locks that it does not keep, and returns their leases. With the newest lock of a name
// the node loses the floor, the wishes and the queue of the name, too.
func (m *Model) Forget(keep func(granted time.Time) bool) (lost []string) {
	for name := range m.names {
		s := m.Name(name)
		if keep(s.Newest) {
			continue
		}
		left := newNamed()
		for _, l := range s.Locks {
			if keep(l.Granted) {
				left.Locks, left.Newest = append(left.Locks, l), l.Granted
			} else {
				lost = append(lost, l.Lease)
			}
		}
		m.names[name] = left
	}
	return lost
}
