// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// watch is a watch on a node that has been set, or is about to be. There is one
// for each node, however many look: package zk and the server cannot take a watch
// back, and repeated attempts would add up while a lock is held. On a new connection it is set anew: package
// zk does not say if it fails to do so.
type watch struct {
	link    *link              // over which it was set, or before; nil if that has failed
	waiters map[*node]struct{} // that are behind the node
	own     *node              // whose node it is; nil if that is no lease of this session
}

// event is what a watch tells, once.
type event struct {
	path string
	gone bool // a quorum has deleted the node; else the watch could not be set
}

// watch has behind told, once, when the node at path is deleted. If it has gone already, behind is
// told that.
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
	_, err := s.set(ctx, path, w)
	return err
}

// watchOwn has the client of a lease told when its node is deleted. It returns what is known of the node.
func (s *session) watchOwn(ctx context.Context, n *node) (*zk.Stat, error) {
	s.mu.Lock()
	w := s.watchOn(n.path())
	w.own = n
	s.mu.Unlock()
	return s.set(ctx, n.path(), w)
}

// watchOn returns the watch on path, which may have to be set yet. s.mu is held.
func (s *session) watchOn(path string) *watch {
	w := s.watches[path]
	if w == nil {
		w = &watch{waiters: make(map[*node]struct{})}
		s.watches[path] = w
	}
	return w
}

// set sets the watch on a node. It is one on its children, of which an ephemeral node has none: so a holder may
// write into its node, and wakes nobody. What comes of the watch is told to event, in the order in which
// it comes. So the own node is watched if nothing has come until the answer is here.
func (s *session) set(ctx context.Context, path string, w *watch) (*zk.Stat, error) {
	s.mu.Lock()
	w.link = s.link
	link := w.link
	s.mu.Unlock()
	return call(ctx, s, func() (*zk.Stat, error) {
		_, stat, _, err := s.conn.ChildrenW(path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			s.fire(event{path, true})
			return nil, err
		case err == nil && stat.EphemeralOwner == 0:
			err = errEndless
		}
		s.mu.Lock()
		defer s.mu.Unlock()
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
		return stat, err
	})
}

// event is called by package zk, which waits for it.
func (s *session) event(e zk.Event) {
	switch e.Type {
	case zk.EventNodeDeleted, zk.EventNodeChildrenChanged: // the latter if the watch is set anew, and for no reason
		s.fire(event{path: e.Path, gone: e.Type == zk.EventNodeDeleted})
	}
}

// fire tells all who watch the node.
func (s *session) fire(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[e.path]
	if w == nil || s.err != nil {
		return
	}
	delete(s.watches, e.path)
	for n := range w.waiters {
		n.ahead(e)
	}
	if n := w.own; n != nil && !n.leaving {
		n.link = nil // the next renewal has it watched again
		if e.gone {
			s.store.work.Go(func() { n.missing(s.store.ctx) })
		}
	}
}
