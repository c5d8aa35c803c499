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

// node is the place of one lease in the queue of a name: an ephemeral node that the servers number. The client
// knows it while the lease is asked for or held, and until the servers have deleted it.
type node struct {
	s      *session
	ref    driver.Ref
	ttl    time.Duration
	renew  bool   // the lease will be renewed
	dir    string // of the name
	prefix string // of the node's name; has the id of the lease, so it is no other lease's
	floor  int64  // the latest transaction that was seen before the first request for this lease; or 0

	busy chan struct{} // has an element while somebody uses the fields up to the next blank line

	making   chan made // gets the answer to a request to make the node, if one is under way
	maybe    bool      // a request to make it had no answer: it may exist, under an unknown name
	made               // the last answer of those
	deleting bool      // a request to delete it has been sent
	gone     bool      // it existed, and was deleted

	// Guarded by session.mu.
	name    string            // "" until it is known
	token   uint64            // 0 until it is known
	line    line              // while it waits: the queue, without nodes that have gone
	before  []string          // the paths of the nodes that must go first, which are watched
	link    *link             // the connection, or one before it, over which the node is watched; nil if it is not
	expires driver.Instant    // when it is deleted unless the lease is renewed; 0 before the grant
	timer   *time.Timer       // at expires
	asked   driver.Instant    // when the oldest renewal without an answer began; or 0
	young   driver.Instant    // since when it is among the holders and cannot be trusted yet; or 0
	waited  time.Time         // when the lease was granted after it had waited, until that is written into the node
	lost    *driver.LostError // why the lease has ended, once the client was told
	leaving bool              // the client wants it deleted: that it goes is no loss
}

// made is the answer to a request to make a node.
type made struct {
	at    string
	err   error
	since driver.Instant // the result of trusted for the request
	sure  error          // the error of that; errYoung from the first use on
	early listing        // of the name's nodes, asked for behind the request; used once
}

func (s *session) newNode(req *driver.Request) *node {
	return &node{
		s: s, ref: driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots}, ttl: req.TTL, renew: req.Renewed,
		dir: s.store.dir(req.Name), prefix: nodePrefix(req.Lease, kindOf(req)), floor: s.store.seen.Load(),
		busy: make(chan struct{}, 1), made: made{sure: errYoung},
	}
}

func (n *node) path() string { return n.dir + "/" + n.name }

// key names the lease within the session.
func (n *node) key() string { return n.dir + "/" + n.prefix }

func (n *node) kind() kind { return kind{n.ref.Shared, n.ref.Slots} }

// use waits until nobody else uses the node. The caller must call free.
func (n *node) use(ctx context.Context) error {
	select {
	case n.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) free() { <-n.busy }

// watching reports whether the node is watched over the present connection: then the server reports that it was deleted
// before it answers any later request. On a new connection package zk sets watches again, but does not say if that
// has failed. session.mu is held.
func (n *node) watching() bool { return n.link != nil && n.link == n.s.link }

// make makes the node, unless it exists. If an earlier request for it had no answer, make looks for the node
// first. After an error the node may exist if n.left says so.
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
//
// Behind it goes a request for the children. A server carries out the requests of a session in order, so the list has the
// node. If the other request happens to be sent first, the list has not, and place asks again.
func (n *node) create(ctx context.Context, req *driver.Request) error {
	sent := n.s.sending()
	n.making = make(chan made, 1)
	data := newRecord(req)
	go func(asked chan made) {
		early := make(chan listing, 1)
		go func() {
			l, _ := n.s.list(n.dir)
			early <- l
		}()
		p, err := n.s.conn.Create(n.key(), data, zk.FlagEphemeralSequential, n.s.store.acl)
		m := made{at: p, err: err, sure: errYoung}
		if err == nil {
			m.since, m.sure = n.s.trusted(sent, n.ttl, n.renew)
			m.early = <-early
		}
		asked <- m
	}(n.making)
	return n.answer(ctx)
}

// answer waits for the answer to the request that is under way.
func (n *node) answer(ctx context.Context) error {
	select {
	case n.made = <-n.making:
		n.making = nil
		n.maybe = unknown(n.err)
		n.s.mu.Lock()
		if n.err == nil {
			n.name = path.Base(n.at)
		}
		if n.maybe {
			n.s.doubts[n.key()] = driver.Now()
		}
		n.s.mu.Unlock()
		return n.s.answer(n.err)
	case <-n.s.dead:
		return n.s.why()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// left reports whether the servers have the node, or may have it.
func (n *node) left() bool {
	return (n.making != nil || n.maybe || n.name != "") && !n.gone && !n.s.isDead()
}

// settle finds out whether the node was made. It repeats requests until that is certain, or ctx ends.
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

// remove deletes the node, and reports whether it existed. It repeats requests until the node is certainly gone, or
// ctx ends.
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
			// The request whose answer was lost has deleted it, or somebody has broken the lease before.
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

// brokenBy returns who has broken the lease of a node that is gone, or nil if the node of the name does not say it.
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
