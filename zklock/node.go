// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// retryPause is the pause before a request is repeated.
const retryPause = 30 * time.Millisecond

// node is a lease's ephemeral node, which the servers number: its place in the queue of a name. The client keeps
// it from the request for the lease until the servers have deleted the node.
type node struct {
	s      *session
	ref    driver.Ref
	dir    string // the name's node
	prefix string // of the node's name; contains the lease's guid, so it is unique
	floor  int64  // store.seen at the first request for this lease; see checkOrder

	busy chan struct{} // holds an element while a call uses the fields below, up to "Guarded by session.mu"

	making   chan made // gets the answer to a request to make the node, if one is under way
	maybe    bool      // a request to make the node had no answer: the node may exist, under an unknown name
	made               // the last answer to such a request
	deleting bool      // a request to delete it has been sent
	gone     bool      // the node existed, and was deleted

	// Guarded by session.mu.
	name    string            // "" until it is known
	czxid   int64             // the transaction that made the node; 0 until the node was watched
	token   uint64            // 0 until it is known
	line    line              // the queue while the lease waits; ahead removes nodes that go
	before  []string          // the paths of the watched nodes before this one
	link    *link             // the connection over which the watch was set, perhaps an earlier one; nil without a watch
	expires driver.Instant    // when the lease expires unless it is renewed; 0 before the grant
	timer   *time.Timer       // calls expire at expires
	asked   driver.Instant    // when the oldest unanswered renewal began; or 0
	young   driver.Instant    // when the lease became a holder, if it cannot be trusted yet; or 0
	waited  time.Time         // when a lease that had waited was granted; noteAcquired is to write it into the node
	lost    *driver.LostError // why the lease has ended; the client has been told
	leaving bool              // the client deletes the node: its deletion is not a loss
}

// made is the answer to a request to make a node.
type made struct {
	at    string // the path of the node
	err   error
	since driver.Instant // what trusted returned for the request; 0 after an error, and once since was used
	early listing        // the name's children, from a request sent after this one; used once
}

func (s *session) newNode(req *driver.Request) *node {
	return &node{
		s: s, ref: driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots},
		dir: s.store.dir(req.Name), prefix: nodePrefix(req.Lease, storekit.SharingOf(req)), floor: s.store.seen.Load(),
		busy: make(chan struct{}, 1),
	}
}

func (n *node) path() string { return n.dir + "/" + n.name }

// key identifies the lease within its session.
func (n *node) key() string { return n.dir + "/" + n.prefix }

// use waits until no other call uses the node. The caller must call free.
func (n *node) use(ctx context.Context) error {
	select {
	case n.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) free() { <-n.busy }

// watching reports whether the node is watched over the present connection. If it is, the server reports a
// deletion of the node before it answers any later request. On a new connection package zk sets its watches again,
// but does not report when that fails. session.mu is held.
func (n *node) watching() bool { return n.link != nil && n.link == n.s.link }

// make makes the node, unless it exists. If an earlier request to make it had no answer, make looks for the node
// first. If make returns an error, n.left says whether the node may exist.
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

// create sends one request to make the node. If ctx ends before the answer comes, n.making receives the answer.
//
// A request for the children follows. A server carries out the requests of a session in order, so the list
// contains the node. If package zk happens to send the request for the children first, the list does not contain
// the node, and place asks for the list again.
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
		m := made{at: p, err: err}
		if err == nil {
			m.since, _ = n.s.trusted(sent)
			m.early = <-early
		}
		asked <- m
	}(n.making)
	return n.answer(ctx)
}

// answer waits for the answer to the request to make the node.
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

// left reports whether the node exists or may exist at the servers.
func (n *node) left() bool {
	return (n.making != nil || n.maybe || n.name != "") && !n.gone && !n.s.isDead()
}

// settle finds out whether the node was made. It repeats requests until it knows, or ctx ends.
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

// again reports whether to repeat a request that has failed with err. It pauses first.
func (n *node) again(ctx context.Context, err error) bool {
	return passing(err) && n.s.sleep(ctx, retryPause)
}

// remove deletes the node, and reports whether it existed. It repeats requests until the node is certainly gone,
// or ctx ends.
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
			// An earlier request without an answer has deleted the node, or somebody had broken the lease before.
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

// brokenBy returns who has broken the lease, or nil if the name's node does not say so.
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
