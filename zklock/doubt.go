// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// doubt is what is remembered of an attempt whose request to make a node had no answer.
// No look says for certain that the request will not be carried out later, as another
// node of the same attempt: it may be on its way from the server that got it to the
// leader. A server refuses what comes for a session that has moved to another one; but
// one that the session comes back to passes the old request on, and the leader may find
// the session moved back by then.
//
// So after each new connection the client looks again, behind a request that a quorum
// has carried out. The old request went the same way before that one, if this is the
// server that got it; if it is another one, it will be refused.
type doubt struct {
	dir, prefix string
	began       driver.Instant
	floor       int64 // of the attempt that made the first of the nodes

	// Guarded by session.mu.
	open  int             // attempts that look for their nodes themselves
	kept  map[string]bool // the nodes that leases and waiters have
	going map[string]bool // those that a deletion has been sent for, or is about to be
}

// forgetDoubt is after how long nothing is expected any more: by far longer than the
// servers bear one another's silence.
const forgetDoubt = 10 * time.Minute

// suspect notes that there may be nodes of an attempt that nobody knows of. Whoever makes a
// node for the same attempt looks, too.
func (s *session) suspect(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.doubt != nil {
		return
	}
	key := n.dir + "/" + n.prefix
	d := s.doubts[key]
	if d == nil {
		d = &doubt{dir: n.dir, prefix: n.prefix, floor: n.floor, kept: make(map[string]bool), going: make(map[string]bool)}
		s.doubts[key] = d
	}
	d.began = driver.Now()
	d.open++
	n.doubt, n.open = d, true
	if len(s.doubts) == 1 && s.cleaning == nil {
		s.cleaning = make(chan struct{}, 1)
		s.store.work.Go(s.cleanUp)
	}
}

// settle notes that an attempt has the node of the given name, or none if that is empty,
// and looks for others no more.
func (n *node) settle(name string) {
	d := n.doubt
	if d == nil {
		return
	}
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	delete(d.kept, n.name)
	if name != "" {
		d.kept[name] = true
	}
	if n.open {
		n.open = false
		d.open--
	}
}

// find looks for the nodes of the attempt, after a request of unknown outcome. The lowest
// that nobody deletes is taken, the others are deleted. If there is none another has to be made.
func (n *node) find(ctx context.Context) error {
	for {
		names, err := n.s.nodesOf(ctx, n.dir, n.prefix)
		if err == nil {
			mine, others := n.choose(names)
			if err = n.s.removeAll(ctx, n.dir, others); err == nil {
				if mine != "" {
					n.name = mine
				}
				n.maybe, n.early = false, nil // the listing under way may have the others
				return nil
			}
		}
		if err := n.s.again(ctx, err); err != nil {
			return err
		}
	}
}

// choose returns which of the nodes of the attempt is to be taken, if any, and the others,
// which are to be deleted. A deletion that was sent for a node may be carried out at any time.
func (n *node) choose(names []string) (mine string, others []string) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	for _, name := range names {
		if mine == "" && !n.doubt.going[name] {
			mine = name
			continue
		}
		n.doubt.going[name] = true
		others = append(others, name)
	}
	return mine, others
}

// nodesOf returns the nodes of this session whose names begin with prefix, in order:
// those of a session before this are about to go.
//
// It asks a quorum first. Sync would not do: it is answered by the leader, which may lead
// nobody any more.
func (s *session) nodesOf(ctx context.Context, dir, prefix string) ([]string, error) {
	if _, err := s.confirmed(ctx, dir); errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	all, err := call(ctx, s, func() (listing, error) {
		l := s.children(dir)
		return l, l.err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var l line
	for _, name := range all.names {
		if c, ok := parseChild(name); ok && strings.HasPrefix(name, prefix) {
			l = append(l, c)
		}
	}
	found, err := s.readAll(ctx, dir, l)
	if err != nil {
		return nil, err
	}
	var own line
	for i, c := range l {
		if stat := found[i].stat; stat != nil && stat.EphemeralOwner == s.sessionID() {
			own = append(own, c)
		}
	}
	slices.SortFunc(own, inOrder)
	var names []string
	for _, c := range own {
		names = append(names, c.name)
	}
	return names, nil
}

// removeAll deletes nodes.
func (s *session) removeAll(ctx context.Context, dir string, names []string) error {
	for _, name := range names {
		_, err := call(ctx, s, func() (none, error) { return none{}, s.conn.Delete(dir+"/"+name, -1) })
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// cleanUp compares what the servers have of the attempts in doubt with what leases and
// waiters have, and deletes the difference: after each new connection, and besides that
// now and then.
func (s *session) cleanUp() {
	for {
		for _, d := range s.settled() {
			if s.removeStrays(d) != nil {
				break // the connection: there will be another
			}
		}
		timer := time.NewTimer(s.granted())
		select {
		case <-timer.C:
		case <-s.cleaning:
		case <-s.dead:
		case <-s.store.ctx.Done():
		}
		timer.Stop()
		if s.isDead() || s.store.ctx.Err() != nil {
			return
		}
	}
}

// settled returns the attempts in doubt that do not look themselves, and forgets the old
// ones.
func (s *session) settled() (all []*doubt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, d := range s.doubts {
		switch {
		case d.open > 0:
		case d.began.Add(forgetDoubt) < driver.Now():
			delete(s.doubts, key)
		default:
			all = append(all, d)
		}
	}
	return all
}

// removeStrays deletes those of the nodes of an attempt that nobody has.
func (s *session) removeStrays(d *doubt) error {
	names, err := s.nodesOf(s.store.ctx, d.dir, d.prefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		if s.stray(d, name) {
			if err := s.removeAll(s.store.ctx, d.dir, []string{name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// stray reports whether nobody has a node of an attempt, which the caller then deletes. It is
// asked right before that: the attempt may have been repeated since the nodes were listed,
// and take any that is not noted here.
func (s *session) stray(d *doubt, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.open > 0 || d.kept[name] {
		return false
	}
	d.going[name] = true
	return true
}
