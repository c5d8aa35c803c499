// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

var (
	errGone = errors.New("somebody has deleted the node of this lease")
	errOver = errors.New("the lease has ended")
)

// Ask implements driver.Store. If somebody has deleted the lease's node, or its session has ended, a later Ask
// makes another node, at the end of the queue.
func (s *store) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	at, err := s.leases(ctx, purposeOf(req))
	if err != nil {
		return driver.Answer{}, failure(ctx, err, false)
	}
	n := at.nodeFor(req)
	if err := n.use(ctx); err != nil {
		return driver.Answer{Handle: n}, failure(ctx, err, true)
	}
	defer n.free()
	ans, err := n.ask(ctx, req)
	ans.Handle = n
	if err = n.leave(ctx, err); err != nil {
		n.gone = n.gone || errors.Is(err, errGone)
		left := n.left()
		if !left {
			at.drop(n)
		}
		return ans, failure(ctx, err, left)
	}
	if !ans.Granted && !req.Queue {
		at.drop(n)
	}
	return ans, nil
}

// nodeFor returns the node of a lease. It does not make the node at the servers.
func (s *session) nodeFor(req *driver.Request) *node {
	n := s.newNode(req)
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.nodes[n.key()]; last != nil {
		if last.lost == nil && !last.leaving {
			return last
		}
		n.floor = last.floor // an old request for the lease may still make the node
	}
	s.nodes[n.key()] = n
	return n
}

// drop forgets a node that the servers have deleted or are about to delete.
func (s *session) drop(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.timer != nil {
		n.timer.Stop()
	}
	n.waitNoMore()
	n.leaving = true
	s.forgetWatch(n.path())
	if s.nodes[n.key()] == n {
		delete(s.nodes, n.key())
	}
}

// ask makes the node and finds its place in the queue.
func (n *node) ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if err := n.make(ctx, req); err != nil {
		return driver.Answer{}, err
	}
	l, i, err := n.place(ctx)
	switch {
	case err != nil:
		return driver.Answer{}, err
	case i < l.holders():
		ans, err := n.grant(ctx, req.Queue)
		if errors.Is(err, errYoung) && req.Queue {
			return driver.Answer{Free: n.s.store.tick / 4, Session: n.s.sending().link}, nil
		}
		return ans, err
	}
	if err := l[i].sharing.Agrees(l[0].sharing); err != nil {
		return driver.Answer{}, err
	}
	n.since = 0
	if req.Queue {
		return n.enqueue(ctx, l, i)
	}
	holders := l[:l.holders()]
	found, err := n.s.readAll(ctx, n.dir, holders)
	for i, c := range holders {
		if err == nil && found[i].endless() {
			return driver.Answer{}, n.s.store.errEndless(n.ref.Name, n.dir+"/"+c.name)
		}
	}
	if err == nil {
		_, err = n.remove(ctx)
	}
	return driver.Answer{Rank: i, Holders: holdersIn(holders, found)}, err
}

// leave returns err. If err is lasting, leave deletes the node first.
func (n *node) leave(ctx context.Context, err error) error {
	if err == nil || !lasting(err) {
		return err
	}
	n.s.mu.Lock()
	n.leaving = true
	n.s.mu.Unlock()
	if _, fail := n.remove(ctx); fail != nil {
		return fail
	}
	n.gone = true
	return err
}

// place returns the queue of the name and the node's index in it.
//
// The server that answers may lag behind the leader. But it knows this node, and so it knows every node that came
// before. It may only miss that some of these have gone. So a node that is a holder in its list is a holder in
// fact.
func (n *node) place(ctx context.Context) (line, int, error) {
	all := n.early
	n.early = listing{}
	if !slices.Contains(all.names, n.name) {
		var err error
		if all, err = n.s.children(ctx, n.dir); err != nil {
			return nil, 0, err
		}
	}
	l, err := readLine(all.names, all.stat.Czxid)
	if err != nil {
		return nil, 0, err
	}
	i := l.index(n.name)
	if i < 0 {
		return nil, 0, errGone
	}
	// The lease's node was made after the name's node, and not after Pzxid. If these two are of one epoch, so is
	// the lease's node.
	own := all.stat.Pzxid
	if epoch(own) != epoch(all.stat.Czxid) {
		if err := n.own(ctx); err != nil {
			return nil, 0, err
		}
		own = get(n.s, &n.czxid)
	}
	n.s.mu.Lock()
	n.token = l[i].token(own)
	n.s.mu.Unlock()
	if n.token == 0 {
		return nil, 0, fmt.Errorf("epoch %d: %w", epoch(own), errEpochs)
	}
	return l, i, n.checkOrder(all.stat.Pzxid)
}

// enqueue watches the node and the nodes that must go before its turn can come.
func (n *node) enqueue(ctx context.Context, l line, i int) (driver.Answer, error) {
	s := n.s
	s.mu.Lock()
	link := s.link
	n.waitNoMore()
	n.line = slices.Clone(l) // before the watches are set, which may fire at once and change n.line
	s.mu.Unlock()
	if err := n.own(ctx); err != nil {
		return driver.Answer{}, err
	}
	for _, c := range l.before(i) {
		// If c has gone in the meantime, watch calls n.ahead as if the watch had fired.
		switch err := s.watch(ctx, n.dir+"/"+c.name, n); {
		case errors.Is(err, errEndless):
			return driver.Answer{}, s.store.errEndless(n.ref.Name, n.dir+"/"+c.name)
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return driver.Answer{}, err
		}
	}
	return driver.Answer{Rank: i - l.holders(), Free: -1, Session: link}, nil
}

// waitNoMore removes n from the watches on the nodes before it. session.mu is held.
func (n *node) waitNoMore() {
	for _, path := range n.before {
		if w := n.s.watches[path]; w != nil {
			delete(w.waiters, n)
			n.s.forgetWatch(path)
		}
	}
	n.line, n.before = nil, nil
}
