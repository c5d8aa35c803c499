// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// retryPause is how long to wait before a request is repeated that the
// connection has failed.
const retryPause = 30 * time.Millisecond

// node is the place of one attempt in the queue of a name: an ephemeral node
// whose number the servers assign. It is not safe for concurrent use.
type node struct {
	s      *session
	dir    string // of the name
	prefix string // of the node's name; contains the id of the lease, so no other attempt's begins so
	record record
	ttl    time.Duration
	renew  bool  // the lease will be renewed
	floor  int64 // the transaction of a grant before any node of the attempt was asked for; or 0

	asked chan made      // gets the answer to a request to make the node, if one is under way
	early chan listing   // gets the children of the name, asked for right behind that
	past  past           // of the name, before that
	seen  past           // likewise, when the node was there
	name  string         // once it is known to have been made
	maybe bool           // it may have been made under a name that is not known
	since driver.Instant // of trusted for the request that made it
	sure  error          // likewise

	doubt    *doubt // an answer to a request to make it was lost; nil if none was
	open     bool   // and the attempt looks for its nodes itself
	deleting bool   // a request to delete it has been sent
	gone     bool   // it was there, and is not any more
}

// made is the answer to a request to make a node.
type made struct {
	path  string
	err   error
	since driver.Instant
	sure  error
}

func (s *session) newNode(req *driver.Request) *node {
	n := &node{
		s: s, dir: s.store.dir(req.Name), prefix: nodePrefix(req.Lease, kindOf(req)), ttl: req.TTL, renew: req.Renewed, floor: s.store.seen.Load(),
		record: record{Holder: *req.Holder, Lease: req.Lease, Why: req.Why, Holds: req.Holds}, sure: errYoung,
	}
	s.mu.Lock()
	d := s.doubts[n.dir+"/"+n.prefix]
	s.mu.Unlock()
	if d != nil {
		n.floor = d.floor // the node may be one that was made long before
		s.suspect(n)      // the attempt is repeated
	}
	return n
}

func (n *node) path() string { return n.dir + "/" + n.name }

// make makes the node. If the connection fails, so that nobody knows whether it
// was made, it is looked for on the next one. On an error it may have been made,
// unless n.left says otherwise.
func (n *node) make(ctx context.Context) error {
	err := n.tryMake(ctx)
	if err == nil || !n.left() {
		n.settle(n.name)
	}
	return err
}

func (n *node) tryMake(ctx context.Context) error {
	for {
		err := n.ask(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err = n.s.makeDir(ctx, n.dir); err != nil {
				err = n.s.again(ctx, err)
			}
		case err != nil && answered(err) && passing(err):
			err = n.s.again(ctx, err)
		case n.doubt == nil || err != nil && !n.maybe:
			return err
		default: // an answer was lost, now or before
			if err = n.find(ctx); err == nil && n.name != "" {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// ask sends one request. If ctx ends before the answer comes, n.asked gets it.
//
// Right behind it goes a request for the children, as a server carries out those of one
// session in order: the list has the node in it, and who is before it. Should the other
// request have been the first to be sent, it has not, and is not used.
func (n *node) ask(ctx context.Context) error {
	n.past = n.s.pastOf(n.dir)
	sent := n.s.sending()
	n.early = make(chan listing, 1)
	n.asked = make(chan made, 1)
	data := n.record.encode()
	go func(asked chan made, early chan listing) {
		go func() { early <- n.s.children(n.dir) }()
		p, err := n.s.conn.Create(n.dir+"/"+n.prefix, data, zk.FlagEphemeralSequential, n.s.store.acl)
		m := made{path: p, err: err, sure: errYoung}
		if err == nil {
			m.since, m.sure = n.s.trusted(sent, n.ttl, n.renew)
		}
		asked <- m
	}(n.asked, n.early)
	return n.answer(ctx)
}

// answer waits for the answer to the request that is under way.
func (n *node) answer(ctx context.Context) error {
	select {
	case m := <-n.asked:
		n.asked = nil
		n.since, n.sure = m.since, m.sure
		if m.err == nil {
			n.name = path.Base(m.path)
		}
		n.maybe = unknown(m.err)
		if n.maybe {
			n.s.suspect(n)
		}
		return m.err
	case <-n.s.dead:
		return errSession
	case <-ctx.Done():
		return ctx.Err()
	}
}

// left reports whether the node is in the store, or may be.
func (n *node) left() bool {
	return (n.asked != nil || n.maybe || n.name != "") && !n.gone && !n.s.isDead()
}

// remove deletes the node, if it was made. It reports whether it was there. It
// asks again until it is certain, or ctx ends.
func (n *node) remove(ctx context.Context) (found bool, err error) {
	if n.asked != nil {
		if err := n.answer(ctx); err != nil && ctx.Err() != nil {
			return false, err
		}
	}
	if n.maybe {
		if err := n.find(ctx); err != nil {
			return false, err
		}
	}
	if n.name == "" || n.gone {
		n.settle("")
		return false, nil
	}
	for {
		before := n.deleting
		n.deleting = true
		_, err := call(ctx, n.s, func() (none, error) { return none{}, n.s.conn.Delete(n.path(), -1) })
		switch {
		case err == nil:
			n.settle("")
			n.s.keepPast(n.dir, n.seen)
			return true, nil
		case errors.Is(err, zk.ErrNoNode) && !before:
			n.settle("")
			return false, nil
		case errors.Is(err, zk.ErrNoNode):
			// It was the request whose answer was lost, or a Break before that.
			var by *driver.LostError
			if by, err = n.brokenBy(ctx); err == nil {
				n.settle("")
				return by == nil, nil
			}
		}
		if err := n.s.again(ctx, err); err != nil {
			return false, err
		}
	}
}

// brokenBy returns how the lease of a node that is gone was broken, or nil if nobody
// has left word of that.
func (n *node) brokenBy(ctx context.Context) (*driver.LostError, error) {
	data, err := n.dirData(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return readBroken(data).find(n.name), err
}

// dirData returns the data of the name's node.
func (n *node) dirData(ctx context.Context) ([]byte, error) {
	return call(ctx, n.s, func() ([]byte, error) {
		data, _, err := n.s.conn.Get(n.dir)
		return data, err
	})
}

// again returns after a pause, and nil, if a request that has failed with err is
// to be repeated; else the error that the caller is to return.
func (s *session) again(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.isDead():
		return s.why()
	case errors.Is(err, zk.ErrSessionExpired):
		s.end(errSession)
		return errSession
	case !passing(err):
		return explain(err)
	case s.sleep(ctx, retryPause):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.why()
}
