// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// watch is a watch on a node that has been set, or is about to be. There is one
// for each node, however many look: package zk and the server cannot take a watch
// back, and repeated attempts would add up while a lock is held. Only whoever owns the
// node sets one more: it has to know over which connection.
type watch struct {
	waiters map[chan event]struct{} // each has room for one
	own     *grant                  // whose node it is
}

// event is what a watch tells, once.
type event struct {
	path string
	gone bool // a quorum has deleted the node; else it has changed, or the watch could not be set
}

// content is a node's data.
type content struct {
	data []byte
	stat *zk.Stat
}

// watch has wake told, once, when the node at path changes or is deleted. If there is no
// such node nobody is told: the error is zk.ErrNoNode.
func (s *session) watch(ctx context.Context, path string, wake chan event) error {
	fresh := s.register(path, func(w *watch) { w.waiters[wake] = struct{}{} })
	_, err := s.look(ctx, path, fresh)
	return err
}

// watchOwn is watch for the node of a grant. It returns what is in it.
func (s *session) watchOwn(ctx context.Context, path string, g *grant) (content, error) {
	s.register(path, func(w *watch) { w.own, g.watched, g.link = g, true, s.link })
	return s.look(ctx, path, true)
}

// register adds to the watch on path, and reports whether it has to be set yet.
func (s *session) register(path string, add func(*watch)) (fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[path]
	if w == nil {
		w, fresh = &watch{waiters: make(map[chan event]struct{})}, true
		s.watches[path] = w
	}
	add(w)
	return fresh
}

// look reads a node, and sets the watch on it if it is fresh.
func (s *session) look(ctx context.Context, path string, fresh bool) (content, error) {
	if !fresh {
		return call(ctx, s, func() (content, error) {
			data, stat, err := s.conn.Get(path)
			return content{data, stat}, err
		})
	}
	return call(ctx, s, func() (content, error) {
		// What comes of the watch is told to event, in the order in which it comes.
		data, stat, _, err := s.conn.GetW(path)
		if err != nil {
			s.fire(event{path: path, gone: errors.Is(err, zk.ErrNoNode)})
		}
		return content{data, stat}, err
	})
}

// unwatch has wake told nothing more of path.
func (s *session) unwatch(path string, wake chan event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[path]; w != nil {
		delete(w.waiters, wake)
	}
}

// event is called by package zk, which waits for it.
func (s *session) event(e zk.Event) {
	switch e.Type {
	case zk.EventNodeDeleted, zk.EventNodeDataChanged:
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
	for wake := range w.waiters {
		select {
		case wake <- e:
		default:
		}
	}
	if g := w.own; g != nil {
		g.stirred = true
		if e.gone {
			s.store.work.Go(func() { // to look once more would take a round trip
				poke(g.told)
				_ = g.missing(s.store.ctx)
			})
		} else {
			s.store.work.Go(g.review)
		}
	}
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
