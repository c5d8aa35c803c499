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

// retryPause is how long to wait before a request is repeated.
const retryPause = 30 * time.Millisecond

// node is the place of one lease in the queue of a name: an ephemeral node whose number the servers assign.
// It is there while the lease is asked for, held, or to be deleted.
type node struct {
	s      *session
	ref    driver.Ref
	ttl    time.Duration
	renew  bool   // the lease will be renewed
	dir    string // of the name
	prefix string // of the node's name; contains the id of the lease, so no other lease's begins so
	floor  int64  // the transaction of a grant before any node of the lease was asked for; or 0

	busy chan struct{} // holds one while somebody uses the fields up to the next blank line

	making   chan made      // gets the answer to a request to make the node, if one is under way
	maybe    bool           // it may have been made under a name that is not known
	since    driver.Instant // of trusted for the request that made it
	sure     error          // likewise; errYoung from the first use on
	deleting bool           // a request to delete it has been sent
	gone     bool           // it was there, and is not any more

	// Guarded by session.mu.
	name    string            // once it is known to have been made
	czxid   int64             // the transaction that made it, once that is known
	line    line              // while it waits: the queue, without those that have gone
	before  []string          // the paths of the nodes that must go first, on which there are watches
	link    *link             // over which a watch was set on it, or before
	expires driver.Instant    // when it is deleted unless the lease is renewed; 0 unless that is granted
	timer   *time.Timer       // at expires
	asked   driver.Instant    // when a renewal began that has no answer yet; or 0
	young   driver.Instant    // since when it is among the holders, and not trusted; or 0
	waited  time.Time         // when it was granted, if that is still to be written
	lost    *driver.LostError // how somebody else has ended the lease, which the client was told
	leaving bool              // it is to be deleted: what happens to it is no news
}

// made is the answer to a request to make a node.
type made struct {
	path  string
	err   error
	since driver.Instant
	sure  error
}

func (s *session) newNode(req *driver.Request) *node {
	return &node{
		s: s, ref: driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots}, ttl: req.TTL, renew: req.Renewed,
		dir: s.store.dir(req.Name), prefix: nodePrefix(req.Lease, kindOf(req)), floor: s.store.seen.Load(),
		busy: make(chan struct{}, 1), sure: errYoung,
	}
}

func (n *node) path() string { return n.dir + "/" + n.name }

// key names the lease within the session.
func (n *node) key() string { return n.dir + "/" + n.prefix }

func (n *node) kind() kind { return kind{n.ref.Shared, n.ref.Slots} }

// use waits until nobody else uses the node. The caller calls free.
func (n *node) use(ctx context.Context) error {
	select {
	case n.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) free() { <-n.busy }

// watching reports whether the server would have told of a deletion of the node before anything that it says
// over the present connection. On a later connection than that of the watch, package zk may have failed to set
// it again. session.mu is held.
func (n *node) watching() bool { return n.link != nil && n.link == n.s.link }

// make makes the node, unless it is there. If an answer was lost before, so that nobody knows whether it was
// made, it is looked for first. On an error it may have been made, unless n.left says otherwise.
func (n *node) make(ctx context.Context, req *driver.Request) error {
	if err := n.settle(ctx); err != nil {
		return err
	}
	for n.name == "" {
		err := n.create(ctx, req)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := n.s.makeDir(ctx, n.dir); err != nil {
				return err
			}
		case err != nil && answered(err) && passing(err):
			if !n.s.sleep(ctx, retryPause) {
				return errors.Join(ctx.Err(), n.s.why())
			}
		case err != nil:
			return err
		}
	}
	return nil
}

// create sends one request. If ctx ends before the answer comes, n.making gets it.
func (n *node) create(ctx context.Context, req *driver.Request) error {
	sent := n.s.sending()
	n.making = make(chan made, 1)
	data := newRecord(req)
	go func(asked chan made) {
		p, err := n.s.conn.Create(n.key(), data, zk.FlagEphemeralSequential, n.s.store.acl)
		m := made{path: p, err: err, sure: errYoung}
		if err == nil {
			m.since, m.sure = n.s.trusted(sent, n.ttl, n.renew)
		}
		asked <- m
	}(n.making)
	return n.answer(ctx)
}

// answer waits for the answer to the request that is under way.
func (n *node) answer(ctx context.Context) error {
	select {
	case m := <-n.making:
		n.making = nil
		n.since, n.sure = m.since, m.sure
		n.maybe = unknown(m.err)
		n.s.mu.Lock()
		if m.err == nil {
			n.name = path.Base(m.path)
		}
		if n.maybe {
			n.s.doubts[n.key()] = driver.Now()
		}
		n.s.mu.Unlock()
		return n.s.answer(m.err)
	case <-n.s.dead:
		return n.s.why()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// left reports whether the node is in the store, or may be.
func (n *node) left() bool {
	return (n.making != nil || n.maybe || n.name != "") && !n.gone && !n.s.isDead()
}

// settle finds out whether the node was made. It asks until that is certain, or ctx ends.
func (n *node) settle(ctx context.Context) error {
	if n.making != nil {
		if err := n.answer(ctx); err != nil && !n.maybe && ctx.Err() != nil {
			return err
		}
	}
	for n.maybe {
		if err := n.find(ctx); err != nil && !n.again(ctx, err) {
			return err
		}
	}
	return nil
}

// again reports, after a pause, whether to repeat a request that has failed with err.
func (n *node) again(ctx context.Context, err error) bool {
	return passing(err) && n.s.sleep(ctx, retryPause)
}

// remove deletes the node, if it was made. It reports whether it was there. It
// asks again until it is certain, or ctx ends.
func (n *node) remove(ctx context.Context) (found bool, err error) {
	if err := n.settle(ctx); err != nil {
		return false, err
	}
	for n.name != "" && !n.gone {
		before := n.deleting
		n.deleting = true
		_, err := call(ctx, n.s, func() (none, error) { return none{}, n.s.conn.Delete(n.path(), -1) })
		switch missing := errors.Is(err, zk.ErrNoNode); {
		case err == nil:
			found = true
		case missing && before:
			// It was the request whose answer was lost, or a Break before that.
			var by *driver.LostError
			by, err = n.brokenBy(ctx)
			found = by == nil
		case missing:
			err = nil
		}
		if n.gone = err == nil; err != nil && !n.again(ctx, err) {
			return false, err
		}
	}
	return found, nil
}

// brokenBy returns how the lease of a node that is gone was broken, or nil if nobody
// has left word of that.
func (n *node) brokenBy(ctx context.Context) (*driver.LostError, error) {
	data, err := call(ctx, n.s, func() ([]byte, error) {
		data, _, err := n.s.conn.Get(n.dir)
		return data, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return readBroken(data).find(n.name), err
}
