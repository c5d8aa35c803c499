// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A request to make a node that had no answer is in doubt. No look says for certain that
// it will not be carried out later, as another
// node of the same lease: it may be on its way from the server that got it to the
// leader. A server refuses what comes for a session that has moved to another one; but
// one that the session comes back to passes the old request on, and the leader may find
// the session moved back by then.
//
// So after each new connection the client looks again, behind a request that a quorum
// has carried out. The old request went the same way before that one, if this is the
// server that got it; if it is another one, it will be refused.

// forgetDoubt is after how long nothing is expected any more: by far longer than the
// servers bear one another's silence.
const forgetDoubt = 10 * time.Minute

// find looks for the node after a request of unknown outcome. The lowest
// that nobody deletes is taken, the others are deleted. If there is none another has to be made.
func (n *node) find(ctx context.Context) error {
	s := n.s
	names, err := s.nodesOf(ctx, n.key())
	if err != nil {
		return err
	}
	s.mu.Lock()
	if i := slices.IndexFunc(names, func(name string) bool { return !s.going[n.dir+"/"+name] }); i >= 0 {
		n.name = names[i]
	}
	s.mu.Unlock()
	for _, name := range names {
		if name == n.name {
			continue
		}
		if err := s.remove(ctx, n.dir+"/"+name); err != nil {
			return err
		}
	}
	n.maybe = false
	return nil
}

// nodesOf returns the nodes of this session whose paths begin with key, in order:
// those of a session before this are about to go.
//
// It asks a quorum first. Sync would not do: it is answered by the leader, which may lead
// nobody any more.
func (s *session) nodesOf(ctx context.Context, key string) ([]string, error) {
	dir, prefix := path.Split(key)
	dir = strings.TrimSuffix(dir, "/")
	_, err := call(ctx, s, func() (driver.Instant, error) { return s.touch(0, true) })
	if err != nil && !errors.Is(err, errYoung) {
		return nil, err
	}
	all, err := s.children(ctx, dir)
	if err != nil {
		return nil, err
	}
	var l line
	for _, name := range all {
		if c, ok := parseChild(name); ok && strings.HasPrefix(name, prefix) {
			l = append(l, c)
		}
	}
	slices.SortFunc(l, inOrder)
	found, err := s.readAll(ctx, dir, l)
	var names []string
	for i, c := range found {
		if c.stat != nil && c.stat.EphemeralOwner == s.sessionID() {
			names = append(names, l[i].name)
		}
	}
	return names, err
}

// remove deletes a node.
func (s *session) remove(ctx context.Context, path string) error {
	_, err := call(ctx, s, func() (none, error) { return none{}, s.conn.Delete(path, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// sweep compares what the servers have of the leases in doubt with what this client knows of, and deletes the
// difference. It is called after each new connection. If it fails, there will be another.
func (s *session) sweep() {
	for _, key := range s.inDoubt() {
		names, err := s.nodesOf(s.store.ctx, key)
		if err != nil {
			return
		}
		for _, name := range names {
			if at := path.Dir(key) + "/" + name; s.stray(key, at) && s.remove(s.store.ctx, at) != nil {
				return
			}
		}
	}
}

// inDoubt returns the leases in doubt and forgets the old ones.
func (s *session) inDoubt() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, began := range s.doubts {
		if began.Add(forgetDoubt) < driver.Now() {
			delete(s.doubts, key)
		} else {
			keys = append(keys, key)
		}
	}
	return keys
}

// stray reports whether nobody has a node of a lease in doubt, which the caller then deletes. It is
// asked right before that: the request may have been repeated since the nodes were listed,
// and take any that is not noted here.
func (s *session) stray(key, at string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[key]; n != nil && (n.name == "" || n.path() == at) {
		return false
	}
	s.going[at] = true
	return true
}
