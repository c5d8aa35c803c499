// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// watch is a watch on a node. A session has one for each node at most, as neither package zk nor a server can
// remove a watch: if each attempt set its own, they would add up while a lock is held. On a new connection it
// is set again, because package zk does not say if it has failed to do that.
type watch struct {
	link    *link              // the connection over which it was set; nil if that has failed
	waiters map[*node]struct{} // whose turn depends on the node
	own     *node              // of which it is the node; nil if it is no lease of this session
}

// event is what a watch reports, once.
type event struct {
	path string
	gone bool // a quorum has deleted the node; else the watch could not be set
}

// watch calls behind.ahead once, when the node at path is deleted, or at once if it has gone already.
func (s *session) watch(ctx context.Context, path string, behind *node) error {
	s.mu.Lock()
	w := s.watchOn(path)
	w.waiters[behind] = struct{}{}
	behind.before = append(behind.before, path)
	fresh := w.link == nil || w.link != s.link
	s.mu.Unlock()
	if !fresh {
		return nil
	}
	return s.set(ctx, path, w)
}

// watchOwn watches the node of a lease, so that its client hears that it was deleted.
func (s *session) watchOwn(ctx context.Context, n *node) error {
	s.mu.Lock()
	w := s.watchOn(n.path())
	w.own = n
	s.mu.Unlock()
	return s.set(ctx, n.path(), w)
}

// watchOn returns the watch on path. A new one has yet to be set. s.mu is held.
func (s *session) watchOn(path string) *watch {
	w := s.watches[path]
	if w == nil {
		w = &watch{waiters: make(map[*node]struct{})}
		s.watches[path] = w
	}
	return w
}

// set sets a watch on a node. It watches for children, which an ephemeral node cannot have: so a holder can
// write into its node and wake nobody. Package zk passes answers and events on in the order in which they arrive. So the
// own node is watched if no event has come before the answer.
func (s *session) set(ctx context.Context, path string, w *watch) error {
	s.mu.Lock()
	w.link = s.link
	link := w.link
	s.mu.Unlock()
	_, err := call(ctx, s, func() (none, error) {
		_, stat, _, err := s.conn.ChildrenW(path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			s.fire(event{path, true})
			return none{}, err
		case err == nil && stat.EphemeralOwner == 0:
			err = errEndless
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wake()
		switch {
		case s.watches[path] != w:
		case err == nil && w.own != nil:
			w.own.link = link
		case err != nil:
			w.link = nil
			for n := range w.waiters {
				n.ahead(event{path, false})
			}
		}
		return none{}, err
	})
	return err
}

// event acts on an event. Package zk calls it, and waits until it returns.
func (s *session) event(e zk.Event) {
	switch e.Type {
	case zk.EventNodeDeleted, zk.EventNodeChildrenChanged: // the latter comes without a cause when the watch is set again
		s.fire(event{path: e.Path, gone: e.Type == zk.EventNodeDeleted})
	}
}

// fire tells the waiters behind a node, and the client of its lease.
func (s *session) fire(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[e.path]
	if w == nil || s.err != nil {
		return
	}
	delete(s.watches, e.path)
	s.wake()
	for n := range w.waiters {
		n.ahead(e)
	}
	if n := w.own; n != nil && !n.leaving {
		n.link = nil
		s.store.work.Go(func() {
			if e.gone {
				n.missing(s.store.ctx)
			} else {
				n.review() // a lease may have no renewals that watch its node again
			}
		})
	}
}

// own watches the node, unless it is watched over the present connection.
func (n *node) own(ctx context.Context) error {
	n.s.mu.Lock()
	known := n.watching()
	n.s.mu.Unlock()
	if known {
		return nil
	}
	err := n.s.watchOwn(ctx, n)
	if errors.Is(err, zk.ErrNoNode) {
		return errGone
	}
	return err
}

// review watches the node of a lease, unless the lease was given back meanwhile, and tells the client if the node has gone.
func (n *node) review() {
	s := n.s
	if !get(s, &n.leaving) && errors.Is(n.own(s.store.ctx), errGone) && !get(s, &n.leaving) {
		n.missing(s.store.ctx)
	}
}
