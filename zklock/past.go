// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"
)

// listing is the answer to a request for the children of a name's node.
type listing struct {
	names []string
	stat  *zk.Stat // of the name's node
	err   error
}

func (s *session) children(dir string) listing {
	names, stat, err := s.conn.Children(dir)
	return listing{names, stat, err}
}

// list returns the children of the name: by the answer that is under way since the node
// was made, if the node is among them, and else by another.
func (n *node) list(ctx context.Context) ([]string, error) {
	if early := n.early; early != nil {
		n.early = nil
		select {
		case l := <-early:
			if l.err == nil && n.sees(l) {
				return l.names, nil
			}
		case <-n.s.dead:
			return nil, n.s.why()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l, err := call(ctx, n.s, func() (listing, error) {
		l := n.s.children(n.dir)
		return l, l.err
	})
	if err == nil {
		n.sees(l)
	}
	return l.names, err
}

// sees reports whether the node is in l, and notes that it was there.
func (n *node) sees(l listing) bool {
	there := slices.Contains(l.names, n.name)
	if there {
		n.seen = past{l.stat.Czxid, l.stat.Cversion, l.stat.Pzxid}
	}
	return there
}

// past is a moment of a name's node: the transaction that made it, how many children had
// been made and deleted since, and the last transaction that did so.
type past struct {
	czxid    int64
	cversion int32
	pzxid    int64
}

// born returns the transaction that made the node, if what is known of the name's node
// tells it.
//
// Package zk gives no stat of what it creates, and to read the node costs a request and a
// trip. But a client that has deleted its last node on the name, and was told so before it asked
// for this one, knows of two changes since it saw the last one there: that deletion, and
// after it this creation. If there were only two the last of them is the latter.
func (n *node) born() (czxid int64, known bool) {
	if n.doubt || n.past.czxid == 0 || n.seen.czxid != n.past.czxid || n.seen.cversion != n.past.cversion+2 || n.seen.pzxid <= n.past.pzxid {
		return 0, false
	}
	return n.seen.pzxid, true
}

// maxPasts bounds how many names a session remembers the past of.
const maxPasts = 1024

// keepPast notes that a node has been deleted which was there at p.
func (s *session) keepPast(dir string, p past) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pasts) >= maxPasts {
		clear(s.pasts)
	}
	s.pasts[dir] = p
}

func (s *session) pastOf(dir string) past {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pasts[dir]
}
