// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// master is a node in memory, for tests in fake time: the semantics of Node, word
// for word, and faults on the way to it.
type master struct {
	addr   string
	maxTTL time.Duration

	mu     sync.Mutex
	run    int
	id     string // of the run, if not "", in place of one of its own
	names  map[string]*named
	closed time.Time // it grants nothing new before
	calls  int
	inside int // requests that have not returned
	most   int // and how many that were at once

	tells []func(nodewire.Message)

	// fault says what happens to a request; nil is a network without faults, in
	// which a request takes no time.
	fault func(op string) fault
}

// fault is what happens to one request.
type fault struct {
	before, after time.Duration // delays of the request and of the reply
	refused       bool          // the connection is refused
	no            error         // the node refuses the request
	lost, silent  bool          // the request, the reply is lost
	deaf          bool          // the node does not heed contexts
}

type named struct {
	locks []*kept // one that is exclusive, or any number that are shared
	floor
	wishes    map[string]time.Time
	ended     map[string]end
	queue     []waiter
	listeners []waiter
}

type waiter struct {
	nodewire.Place
	ends time.Time
}

// floor is the largest token stored, and those that stand.
type floor struct {
	token          uint64
	owner          string
	stands, writer uint64
	before         [2]uint64 // the two before owner stored a token
}

func (f *floor) store(token uint64, lease string, shared bool) {
	if f.owner != lease {
		f.before = [2]uint64{f.stands, f.writer}
	}
	if f.token, f.owner, f.stands = token, lease, token; !shared {
		f.writer = token
	}
}

func (f *floor) fail(lease string) {
	if f.owner == lease {
		f.stands, f.writer = f.before[0], f.before[1]
	}
}

// kept is a lock that has not ended.
type kept struct {
	nodewire.Lock
	ends time.Time
}

type end struct {
	news   string
	forget time.Time
}

var errRefused = fmt.Errorf("%w: connection refused", driver.ErrUnavailable)

func masters(n int) []*master {
	all := make([]*master, n)
	for i := range all {
		all[i] = &master{addr: fmt.Sprint("node", i), maxTTL: time.Minute, run: 1, names: make(map[string]*named)}
	}
	return all
}

func nodes(all []*master) []nodewire.Node {
	ns := make([]nodewire.Node, len(all))
	for i, m := range all {
		ns[i] = m
	}
	return ns
}

// carry carries one request to the master and the reply back.
func (m *master) carry(ctx context.Context, op string, step func()) error {
	m.mu.Lock()
	m.calls++
	m.inside++
	m.most = max(m.most, m.inside)
	var f fault
	if m.fault != nil {
		f = m.fault(op)
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.inside--
		m.mu.Unlock()
	}()
	if f.refused {
		return errRefused
	}
	if f.no != nil {
		return f.no
	}
	reached := make(chan struct{})
	go func() { // the request goes on although nobody waits for it any more
		time.Sleep(f.before)
		if !f.lost {
			m.mu.Lock()
			step()
			m.mu.Unlock()
		}
		time.Sleep(f.after)
		close(reached)
	}()
	if f.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-reached:
		if f.lost || f.silent {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// at returns what the master has for name, now. m.mu is held.
func (m *master) at(name string) *named {
	n := m.names[name]
	if n == nil {
		n = &named{wishes: make(map[string]time.Time), ended: make(map[string]end)}
		m.names[name] = n
	}
	now := time.Now()
	n.locks = slices.DeleteFunc(n.locks, func(l *kept) bool { return !l.ends.After(now) })
	maps.DeleteFunc(n.wishes, func(_ string, ends time.Time) bool { return !ends.After(now) })
	n.leave(func(w waiter) bool { return !w.ends.After(now) })
	maps.DeleteFunc(n.ended, func(_ string, e end) bool { return e.forget.Before(now) })
	return n
}

func (n *named) of(lease string) *kept {
	for _, l := range n.locks {
		if l.Lease == lease {
			return l
		}
	}
	return nil
}

func (n *named) exclusive() bool { return len(n.locks) > 0 && !n.locks[0].Shared }

// wake tells the listeners, and the first of the queue.
func (m *master) wake(n *named) {
	for _, w := range n.listeners {
		m.tell(nodewire.Message{Lease: w.Lease, Seq: w.Seq, Run: m.runID()})
	}
	if len(n.queue) > 0 {
		m.tell(nodewire.Message{Lease: n.queue[0].Lease, Seq: n.queue[0].Seq, Run: m.runID()})
	}
}

func (m *master) tell(msg nodewire.Message) {
	for _, f := range m.tells {
		f(msg)
	}
}

// Tell implements Node. All participants get all messages.
func (m *master) Tell(f func(nodewire.Message)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tells = append(m.tells, f)
}

// dequeue takes a lease out of the queue, or from the listeners, and reports whether it was there.
func (n *named) dequeue(lease string) bool {
	before := len(n.queue) + len(n.listeners)
	n.leave(func(w waiter) bool { return w.Lease == lease })
	return len(n.queue)+len(n.listeners) < before
}

func (n *named) leave(gone func(waiter) bool) {
	n.queue, n.listeners = slices.DeleteFunc(n.queue, gone), slices.DeleteFunc(n.listeners, gone)
}

// hand gives the lock to the first of the queue.
func (m *master) hand(n *named, next uint64) bool {
	if len(n.listeners) > 0 || len(n.queue) == 0 {
		return false
	}
	p := n.queue[0]
	token := max(next, p.Token)
	if token <= n.token || token > nodewire.MaxToken || time.Until(m.closed) > 0 {
		return false
	}
	n.queue = slices.Delete(n.queue, 0, 1)
	n.store(token, p.Lease, false)
	n.locks = []*kept{{nodewire.Lock{Lease: p.Lease, Token: token, Record: p.Record, Granted: time.Now()}, time.Now().Add(p.TTL)}}
	m.tell(nodewire.Message{Lease: p.Lease, Token: token, Seq: p.Seq, Run: m.runID()})
	return true
}

func (m *master) Enqueue(ctx context.Context, p nodewire.Place) (nodewire.State, error) {
	var s nodewire.State
	err := m.carry(ctx, "enqueue", func() {
		n := m.at(p.Name)
		if _, over := n.ended[p.Lease]; !over && (n.of(p.Lease) == nil || !n.exclusive()) {
			n.dequeue(p.Lease)
			waits := waiter{p, time.Now().Add(p.For)}
			switch {
			case p.For == 0:
			case p.Shared:
				n.listeners = append(n.listeners, waits)
			default:
				n.queue = append(n.queue, waits)
				slices.SortFunc(n.queue, func(a, b waiter) int {
					return cmp.Or(cmp.Compare(a.Place.Place, b.Place.Place), cmp.Compare(a.Lease, b.Lease))
				})
			}
		}
		s = n.look()
		s.Ahead = max(0, slices.IndexFunc(n.queue, func(w waiter) bool { return w.Lease == p.Lease }))
	})
	if err != nil {
		return nodewire.State{}, err
	}
	return s, nil
}

func (n *named) look() nodewire.State {
	s := nodewire.State{Floor: n.token, Writer: n.writer, Waiters: len(n.listeners) + len(n.queue), Wishes: len(n.wishes)}
	for _, l := range n.locks {
		l.Left = time.Until(l.ends)
		s.Locks = append(s.Locks, l.Lock)
	}
	slices.SortStableFunc(s.Locks, func(a, b nodewire.Lock) int {
		return cmp.Or(cmp.Compare(a.Left, b.Left), cmp.Compare(a.Lease, b.Lease))
	})
	for _, ends := range n.wishes {
		s.Wished = max(s.Wished, time.Until(ends))
	}
	return s
}

func (m *master) Addr() string { return m.addr }

func (m *master) runID() string { return cmp.Or(m.id, fmt.Sprint(m.addr, ".", m.run)) }

// A request that nobody waits for any more may still write its answer, so that is
// read only if there is no error.
func (m *master) Propose(ctx context.Context, p nodewire.Proposal) (nodewire.Vote, error) {
	var v nodewire.Vote
	err := m.carry(ctx, "propose", func() {
		if p.Token <= nodewire.MaxToken {
			v = m.propose(p)
		}
	})
	if err == nil && p.Token > nodewire.MaxToken {
		err = unavailable(errors.New("a token beyond 2^53"))
	}
	if err != nil {
		return nodewire.Vote{}, err
	}
	return v, nil
}

func (m *master) propose(p nodewire.Proposal) (v nodewire.Vote) {
	n := m.at(p.Name)
	v.Run = m.runID()
	v.Closed = max(0, time.Until(m.closed))
	defer func() {
		if v.State = n.look(); v.Has {
			v.Locks = nil
		}
	}()
	fits := p.Token > n.token || p.Token == n.token && n.owner == p.Lease
	if e, ok := n.ended[p.Lease]; ok {
		v.Ended, v.News = true, e.news
		return v
	}
	l := n.of(p.Lease)
	if l == nil {
		taken := len(n.locks) > 0 && !(p.Shared && !n.exclusive())
		overtaken := p.Token < n.stands && !(p.Shared && p.Token >= n.writer)
		switch {
		case taken:
			return v
		case v.Closed > 0, p.Mode == nodewire.Take && p.Shared && len(n.wishes) > 0, p.Mode == nodewire.Heal && overtaken:
			return v
		}
		l = &kept{nodewire.Lock{Lease: p.Lease, Shared: p.Shared, Record: p.Record, Granted: time.Now()}, time.Now()}
		if !p.Shared {
			n.locks = nil
		}
		n.locks = append(n.locks, l)
	}
	v.Has = true
	if p.Queued {
		n.dequeue(p.Lease)
	}
	if ends := time.Now().Add(p.TTL); ends.After(l.ends) {
		l.ends = ends
	}
	if fits {
		n.store(p.Token, p.Lease, p.Shared)
		v.Stored = true
	}
	if fits || p.Mode != nodewire.Take {
		l.Token = p.Token
	}
	return v
}

func (m *master) End(ctx context.Context, e nodewire.Ending) (bool, bool, error) {
	var had, handed bool
	err := m.carry(ctx, "end", func() {
		n := m.at(e.Name)
		if e.Bar || e.News != "" {
			news := n.ended[e.Lease].news
			if news == "" {
				news = e.News
			}
			n.ended[e.Lease] = end{news, time.Now().Add(max(m.maxTTL, underWay))}
		}
		if !e.Held {
			n.fail(e.Lease)
		}
		waited := n.dequeue(e.Lease)
		l := n.of(e.Lease)
		if had = l != nil; !had {
			if waited && len(n.locks) == 0 {
				m.wake(n)
			}
			return
		}
		n.locks = slices.DeleteFunc(n.locks, func(o *kept) bool { return o == l })
		if !l.Shared && e.Held {
			clear(n.wishes)
		}
		if e.News != "" {
			m.tell(nodewire.Message{Lease: e.Lease, Broken: true, News: e.News})
		}
		if len(n.locks) == 0 {
			if handed = e.Next > 0 && !l.Shared && m.hand(n, e.Next); !handed {
				m.wake(n)
			}
		}
	})
	if err != nil {
		return false, false, err
	}
	return had, handed, nil
}

func (m *master) Want(ctx context.Context, w nodewire.Wish) (nodewire.State, error) {
	var s nodewire.State
	err := m.carry(ctx, "want", func() {
		n := m.at(w.Name)
		_, had := n.wishes[w.Who]
		if w.For > 0 {
			n.wishes[w.Who] = time.Now().Add(w.For)
		} else if delete(n.wishes, w.Who); had && len(n.wishes) == 0 {
			m.wake(n)
		}
		s = n.look()
	})
	if err != nil {
		return nodewire.State{}, err
	}
	return s, nil
}

func (m *master) Read(ctx context.Context, names []string, _ bool) ([]nodewire.State, error) {
	var states []nodewire.State
	err := m.carry(ctx, "read", func() {
		for _, name := range names {
			states = append(states, m.at(name).look())
		}
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

func (m *master) List(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	err := m.carry(ctx, "list", func() {
		for name := range m.names {
			if strings.HasPrefix(name, prefix) && len(m.at(name).locks) > 0 {
				names = append(names, name)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

func (m *master) Status(ctx context.Context) (nodewire.Status, error) {
	var s nodewire.Status
	err := m.carry(ctx, "status", func() {
		s = nodewire.Status{Addr: m.addr, Run: m.runID(), Closed: max(0, time.Until(m.closed))}
	})
	if err != nil {
		return nodewire.Status{}, err
	}
	return s, nil
}

func (m *master) Close() error { return nil }

// restart forgets everything, as a server without persistence does.
func (m *master) restart(quarantine bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run++
	for name := range m.names {
		m.names[name] = &named{wishes: make(map[string]time.Time), ended: make(map[string]end)}
	}
	if quarantine {
		m.closed = time.Now().Add(m.maxTTL)
	}
}

// set sets what happens to requests.
func (m *master) set(f func(op string) fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

func always(f fault) func(string) fault { return func(string) fault { return f } }

// only is for one kind of request.
func only(op string, f fault) func(string) fault {
	return func(o string) fault {
		if o == op {
			return f
		}
		return fault{}
	}
}

// lockOf returns the exclusive lock that the master has now, or the shared one that
// ends first.
func (m *master) lockOf(name string) nodewire.Lock {
	if locks := m.stateOf(name).Locks; len(locks) > 0 {
		return locks[0]
	}
	return nodewire.Lock{}
}

// stateOf returns how the name is now.
func (m *master) stateOf(name string) nodewire.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(name).look()
}
