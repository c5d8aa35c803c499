// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// watch is a watch on a node. A session has at most one for each node, because neither package zk nor a server can
// remove a watch: if each attempt set its own, watches would pile up while a lock is held. On a new connection the
// client sets the watch again itself, because package zk does not report when it fails to do so.
type watch struct {
	link    *link              // the connection over which the watch was set; nil if that has failed
	waiters map[*node]struct{} // lease nodes that wait until the watched node goes
	own     *node              // the lease whose node is watched; nil if the node is not of this session
}

// event is the one report of a watch.
type event struct {
	path string
	gone bool // the node was deleted; else the watch could not be set, or must be set again
}

// watch calls behind.ahead once, when the node at path is deleted. If the node has gone already, watch calls it at
// once.
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

// watchOwn watches the node of a lease, so that the client learns of a deletion.
func (s *session) watchOwn(ctx context.Context, n *node) error {
	s.mu.Lock()
	w := s.watchOn(n.path())
	w.own = n
	s.mu.Unlock()
	return s.set(ctx, n.path(), w)
}

// watchOn returns the watch on path. It does not set a new one. s.mu is held.
func (s *session) watchOn(path string) *watch {
	w := s.watches[path]
	if w == nil {
		w = &watch{waiters: make(map[*node]struct{})}
		s.watches[path] = w
	}
	return w
}

// set sets a watch on a node. It watches for children, which an ephemeral node cannot have, so a holder can write
// into its node without waking anybody. Package zk passes on answers and events in the order in which they arrive.
// So a lease's own node is watched if no event has come before the answer.
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
		if err == nil && w.own != nil {
			w.own.czxid = stat.Czxid
		}
		switch {
		case s.watches[path] != w:
		case err == nil && w.own != nil:
			w.own.link = link
		case err != nil:
			w.link = nil
			for n := range w.waiters {
				n.ahead(event{path, false})
			}
			s.forgetWatch(path)
		}
		return none{}, err
	})
	return err
}

// forgetWatch forgets the watch on a node if it could not be set and nobody needs it. s.mu is held.
func (s *session) forgetWatch(path string) {
	if w := s.watches[path]; w != nil && w.link == nil && len(w.waiters) == 0 && (w.own == nil || w.own.leaving) {
		delete(s.watches, path)
	}
}

// event handles an event. Package zk calls it, and waits until it returns.
func (s *session) event(e zk.Event) {
	switch e.Type {
	case zk.EventNodeDeleted, zk.EventNodeChildrenChanged: // ChildrenChanged comes without a change when package zk sets the watch again
		s.fire(event{path: e.Path, gone: e.Type == zk.EventNodeDeleted})
	}
}

// fire removes the watch on a node, calls ahead for its waiters, and checks the lease whose node it is.
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
				n.review()
			}
		})
	}
}

// own watches the node, unless the node is watched over the present connection.
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

// review watches the node, unless the lease has ended. It repeats the request until it has an answer, because
// nothing else watches the node of a lease without renewals. If the node has gone, review tells the client.
func (n *node) review() {
	s := n.s
	for {
		s.mu.Lock()
		over := n.leaving || n.lost != nil
		s.mu.Unlock()
		if over {
			return
		}
		switch err := n.own(s.store.ctx); {
		case err == nil:
			return
		case errors.Is(err, errGone):
			n.missing(s.store.ctx)
			return
		case !n.again(s.store.ctx, err):
			return
		}
	}
}
