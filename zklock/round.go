// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
)

// round is one request that confirms many leases: whether their nodes are there
// still, asked in a transaction without a change. Unlike a read, and unlike sync,
// which the leader answers by itself, it is carried out by a quorum, and refused
// if the session has ended. While as many as maxRounds are under way, all who ask join the
// next.
type round struct {
	paths map[string]bool // false: there is no such node
	of    []*grant        // those that are renewed
	done  chan struct{}   // closed when the fields below are set
	sent  sending         // before the first request
	err   error
}

// Bounds of one request: servers refuse more than a megabyte, unless configured.
const (
	maxChecks = 500
	maxBytes  = 256 << 10
	// Rounds that are under way at a time. On a link on which they take long, one that
	// begins now must not wait for another.
	maxRounds = 4
)

// confirmed returns when the node at path was certainly there, and the session too: at
// the sending of a request after confirmed was called, which a quorum has carried
// out. It returns zk.ErrNoNode if the node is not there.
func (s *session) confirmed(ctx context.Context, path string) (sending, error) {
	return s.confirmedFor(ctx, path, nil)
}

// confirmedFor is confirmed for the node of a grant that is renewed. What a round has shown is noted
// there also if ctx has ended meanwhile: on a slow link the next call is told.
func (s *session) confirmedFor(ctx context.Context, path string, g *grant) (sending, error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return sending{}, errSession
	}
	r := s.round
	if r == nil {
		r = &round{paths: make(map[string]bool), done: make(chan struct{})}
		s.round = r
	}
	r.paths[path] = true
	if g != nil {
		r.of = append(r.of, g)
	}
	if s.asking < maxRounds {
		s.asking++
		s.store.work.Go(s.ask)
	}
	s.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return sending{}, ctx.Err()
	case <-s.dead:
		return sending{}, errSession
	}
	switch {
	case r.err != nil:
		return sending{}, r.err
	case !r.paths[path]:
		return sending{}, zk.ErrNoNode
	}
	return r.sent, nil
}

// ask carries out rounds for as long as there is one to carry out.
func (s *session) ask() {
	for {
		s.mu.Lock()
		r := s.round
		s.round = nil
		if r == nil {
			s.asking--
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		r.sent = s.sending()
		var paths []string
		size := 0
		for path := range r.paths {
			if len(paths) == maxChecks || size+len(path) > maxBytes {
				r.check(s.conn, paths)
				paths, size = nil, 0
			}
			paths = append(paths, path)
			size += len(path)
		}
		r.check(s.conn, paths)
		if r.err == nil {
			s.noteRound(r)
		}
		close(r.done)
	}
}

// noteRound notes what a round has shown of the session and of the leases that it renews.
func (s *session) noteRound(r *round) {
	if _, err := s.confirm(r.sent, 0); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range r.of {
		if r.paths[g.n.path()] && r.sent.at > g.there.at {
			g.there = r.sent
		}
	}
}

// check asks for some of the nodes. If one is missing the servers say no more of
// the others, so it asks again without it.
func (r *round) check(conn *zk.Conn, paths []string) {
	for r.err == nil && len(paths) > 0 {
		ops := make([]any, len(paths))
		for i, path := range paths {
			ops[i] = &zk.CheckVersionRequest{Path: path, Version: -1}
		}
		answers, err := conn.Multi(ops...)
		if !errors.Is(err, zk.ErrNoNode) {
			r.err = err
			return
		}
		i := slices.IndexFunc(answers, func(a zk.MultiResponse) bool { return errors.Is(a.Error, zk.ErrNoNode) })
		if i < 0 {
			r.err = err
			return
		}
		r.paths[paths[i]] = false
		paths = append(paths[:i:i], paths[i+1:]...)
	}
}
