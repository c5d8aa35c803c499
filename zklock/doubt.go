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

// A lease is in doubt if a request to make its node had no answer. The request may be under way from a server to
// the leader. So it may be carried out later, and make a second node, even after the client has looked. The leader
// refuses requests of a session that has moved to another server. But if the session returns to the first server,
// the leader may accept the old request.
//
// So after each new connection the client has a quorum carry out a request, and then looks for nodes of leases in
// doubt. If the present server got the old request, it passed that request on before. If another server got it,
// the leader will refuse it.

// forgetDoubt is how long a lease is in doubt. It is far longer than ZooKeeper servers wait for each other.
const forgetDoubt = 10 * time.Minute

// find looks for the lease's nodes after a request without an answer. It adopts the first node that sweep is not
// deleting, and deletes the others. If it adopts none, n.name stays empty.
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

// nodesOf returns the nodes of this session whose paths begin with key, in order. It leaves out the nodes of an
// earlier session, which are about to go.
//
// It has a quorum carry out a request first. A sync is not enough, because a leader that has lost its quorum
// answers it.
func (s *session) nodesOf(ctx context.Context, key string) ([]string, error) {
	dir, prefix := path.Dir(key), path.Base(key)
	_, err := call(ctx, s, s.touch)
	if err != nil && !errors.Is(err, errYoung) {
		return nil, err
	}
	all, err := s.children(ctx, dir)
	if err != nil {
		return nil, err
	}
	var l line
	for _, name := range all.names {
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

// sweep deletes the nodes of leases in doubt that this client does not use. It runs after each new connection. If
// it fails, the connection has broken, and it runs again after the next one.
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

// inDoubt returns the keys of the leases in doubt, and forgets old ones.
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

// stray reports whether no lease uses the node at the path at. If so, it marks the node, so that find does not
// adopt it, and the caller deletes it. After sweep has listed the nodes, a new request for the lease may have
// adopted any node that is not marked.
func (s *session) stray(key, at string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[key]; n != nil && (n.name == "" || n.path() == at) {
		return false
	}
	s.going[at] = true
	return true
}
