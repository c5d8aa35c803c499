// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// A change of the nodes closes the old set, waits, and opens the new one:
//
//  1. It closes all new nodes and a quorum of the old ones: they grant and renew nothing.
//     The record of each closed node names the next set, and has a mark that is unique to
//     this closing.
//  2. It waits for MaxTTL. The leases of the old set end.
//  3. If a quorum of the old nodes has kept its marks, no lease was renewed meanwhile. Each
//     new node that is closed for the new set gets this set, as the next generation.
//
// A node that loses its data loses its mark. The operator closes it again, and waits anew
// unless a quorum of the old nodes has kept its marks. The operator may stop between any two
// requests, for any time: a write replaces a record only if it is still the record that the
// operator has read. Abort first replaces the marks at so many nodes that no quorum of the
// new set can open. Then it opens the old set again.

// ErrOtherChange says that another operator is changing the nodes. Run and Abort return it.
var ErrOtherChange = errors.New("another change of the nodes is under way")

// Change is a change of the nodes of a store. One operator at a time makes it.
type Change struct {
	From, To string   // URLs of the old and of the new nodes
	Options  *Options // for both
	// Say is called with each step, in words. It may be nil.
	Say func(string)
	// Force makes Abort open the old nodes even if too few of the new ones answer, or if nodes are closed
	// for another change. By default Abort returns an error then. Set Force only if nobody else is changing
	// the nodes.
	Force bool

	killed func() bool // for tests that end the operator before a write
}

// Run changes the nodes. It takes about MaxTTL; meanwhile the nodes grant and renew nothing. If Run
// fails or is interrupted, run it again, or undo it with Abort.
func (c Change) Run(ctx context.Context) error { return c.with(ctx, (*change).run) }

// Abort undoes a change that has not opened the new nodes.
func (c Change) Abort(ctx context.Context) error { return c.with(ctx, (*change).abort) }

func (c Change) with(ctx context.Context, f func(*change, context.Context) error) error {
	x, err := newChange(ctx, c)
	if err == nil {
		defer x.close()
		err = f(x, ctx)
	}
	if err != nil {
		return fmt.Errorf("redlock: %w", err)
	}
	return nil
}

// change is a Change, and what its operator knows about the nodes.
type change struct {
	Change
	by    string
	limit *epoch.Limit
	nodes map[string]*redisNode // by address
	from  []string              // addresses
	to    []string
	quor  [2]int // the quorums of from and to

	seen map[string]entry // what the nodes have recorded, by address
	errs map[string]error // why nodes have not answered, by address
	now  entry            // what the old nodes serve: the latest generation
	next nodeSet          // the new set
}

func newChange(ctx context.Context, what Change) (*change, error) {
	c := &change{Change: what, nodes: make(map[string]*redisNode)}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	opts, places, err := parseURL(c.From, storekit.OrDefault(c.Options))
	if err != nil {
		return nil, err
	}
	newOpts, next, err := parseURL(c.To, storekit.OrDefault(c.Options))
	if err != nil {
		return nil, err
	}
	c.from, c.to = addrsOf(places, addrOf), addrsOf(next, addrOf)
	if err := cmp.Or(namedTwice(c.from), namedTwice(c.to)); err != nil {
		return nil, err
	}
	c.quor = [2]int{opts.quorum(len(c.from)), newOpts.quorum(len(c.to))}
	if n, q := len(c.to), c.quor[1]; q <= n/2 || q > n {
		return nil, fmt.Errorf("%d of %d nodes are no quorum: use %d to %d", q, n, n/2+1, n)
	}
	for i, p := range next {
		if !slices.Contains(c.from, c.to[i]) {
			places = append(places, p)
		}
	}
	var who driver.Holder
	if err := json.Unmarshal([]byte(storekit.Signature(driver.Holder(opts.Holder))), &who); err != nil {
		return nil, err
	}
	c.by = strings.ReplaceAll(who.String(), "\n", " ")
	conf, err := nodeConfig(opts)
	if err != nil {
		return nil, err
	}
	c.limit = conf.Limit
	nodes, err := dial(ctx, places, opts, conf)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		c.nodes[n.Addr()] = n.(*redisNode)
	}
	return c, nil
}

func (c *change) close() {
	for _, n := range c.nodes {
		n.Close()
	}
}

// each calls f for all nodes at once. Then it keeps the entries that f returns in seen, and the errors in errs.
func (c *change) each(ctx context.Context, f func(ctx context.Context, addr string, n *redisNode) (entry, error)) {
	ctx, cancel := context.WithTimeout(ctx, 2*lookTimeout)
	defer cancel()
	seen, errs := make(map[string]entry), make(map[string]error)
	var mu sync.Mutex
	var all sync.WaitGroup
	for addr, n := range c.nodes {
		all.Go(func() {
			e, err := f(ctx, addr, n)
			mu.Lock()
			defer mu.Unlock()
			if seen[addr] = e; err != nil {
				seen[addr], errs[addr] = entry{}, err
			}
		})
	}
	all.Wait()
	c.seen, c.errs = seen, errs
}

// put records next at a node, if the node still has was. It returns what the node has after that.
func (c *change) put(ctx context.Context, n *redisNode, was, next entry) (entry, error) {
	if c.killed != nil && c.killed() {
		return entry{}, context.Canceled
	}
	return n.record(ctx, was.raw, next, 0)
}

// look reads the records of all nodes, and sets now to what the old ones serve.
func (c *change) look(ctx context.Context) error {
	c.each(ctx, func(ctx context.Context, _ string, n *redisNode) (entry, error) {
		if _, err := n.server.State(ctx, []string{n.server.EpochKey()}, true); err != nil {
			return entry{}, err
		}
		return n.record(ctx, "", entry{}, 0)
	})
	stores := make(map[string]int)
	c.now = entry{}
	for _, addr := range c.from {
		if e := c.seen[addr]; e.founded() {
			if stores[e.store]++; stores[e.store] > stores[c.now.store] {
				c.now = e
			}
		}
	}
	for _, e := range c.seen {
		if e.founded() && e.store == c.now.store && e.gen > c.now.gen {
			c.now = e
		}
	}
	if c.now.self == "" {
		return fmt.Errorf("no client has used these nodes yet, or none answers: %s", c.unheard(c.from))
	}
	return nil
}

// unheard lists the nodes at addrs that have not answered, or belong to another store.
func (c *change) unheard(addrs []string) string {
	var m misses
	for _, a := range addrs {
		switch e := c.seen[a]; {
		case c.errs[a] != nil:
			m = append(m, miss{a, c.errs[a]})
		case e.founded() && e.store != c.now.store:
			m = append(m, miss{a, fmt.Errorf("it belongs to another store (%s)", strings.Join(e.addrs, ", "))})
		}
	}
	return m.String()
}

// idOf returns the id of the node at addr: from its own record, or else from the latest record that names addr. It returns "" if there is none.
func (c *change) idOf(addr string) string {
	if e := c.seen[addr]; e.self != "" && (e.state == isNew || e.state == isJoining || e.store == c.now.store) {
		return e.self
	}
	return cmp.Or(c.now.idAt(addr), c.idBefore(addr), c.idAfter(addr))
}

// idBefore returns the id at addr in the latest generation that names addr. It finds the id of an old node when another
// node is open for the new set already.
func (c *change) idBefore(addr string) (id string) {
	gen := 0
	for _, e := range c.seen {
		if old := e.idAt(addr); e.founded() && e.store == c.now.store && e.gen > gen && old != "" {
			id, gen = old, e.gen
		}
	}
	return id
}

// idAfter returns the id of a new node as closed nodes have recorded it: the new node may have lost its data.
func (c *change) idAfter(addr string) string {
	for _, e := range c.seen {
		if i := slices.Index(e.addrN, addr); i >= 0 && i < len(e.next.ids) && e.state == isClosed && e.store == c.now.store {
			return e.next.ids[i]
		}
	}
	return ""
}

// is reports whether the nodes at addrs may be the set: number and quorum are right, and every id that is known is in it.
func (c *change) is(set nodeSet, addrs []string, quorum int) bool {
	for _, a := range addrs {
		if id := c.idOf(a); id != "" && !set.has(id) {
			return false
		}
	}
	return len(set.ids) == len(addrs) && set.quorum == quorum
}

// isAll reports whether the nodes at addrs are the set, and the ids of all of them are known.
func (c *change) isAll(set nodeSet, addrs []string, quorum int) bool {
	return c.is(set, addrs, quorum) && !slices.ContainsFunc(addrs, func(a string) bool { return c.idOf(a) == "" })
}

// prepare gives an id to each new node without one, and sets next.
func (c *change) prepare(ctx context.Context) error {
	var ids []string
	for _, a := range c.to {
		if err := c.errs[a]; err != nil {
			return fmt.Errorf("%w: all new nodes have to answer: %s", driver.ErrUnavailable, c.unheard(c.to))
		}
		id := c.idOf(a)
		if e := c.seen[a]; id == "" && e.raw != "" {
			return fmt.Errorf("%s belongs to another store (%s): empty it first (FLUSHALL)", a, strings.Join(e.addrs, ", "))
		}
		if id == "" {
			e, err := c.put(ctx, c.nodes[a], entry{}, entry{self: strings.ToLower(rand.Text()[:10]), state: isJoining})
			if err != nil {
				return fmt.Errorf("%s: %w", a, err)
			}
			c.seen[a] = e
			id = e.self
		}
		if slices.Contains(ids, id) {
			return fmt.Errorf("%s is the same node as another one: name each node once", a)
		}
		ids = append(ids, id)
	}
	c.next = newSet(c.quor[1], ids)
	return nil
}

// addrsOf returns the addresses of the nodes of set, in the order of their ids.
func (c *change) addrsOf(set nodeSet) []string {
	addrs := make([]string, len(set.ids))
	for i, id := range set.ids {
		addrs[i] = c.now.addr(id)
		for _, a := range c.to {
			if c.idOf(a) == id {
				addrs[i] = a
			}
		}
	}
	return addrs
}
