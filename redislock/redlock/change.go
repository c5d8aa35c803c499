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
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// A change of the nodes closes the old set, waits, and opens the new one:
//
//  1. All new nodes and a quorum of the old ones are closed: they grant and renew nothing.
//     The record of each gets a mark, which no other closing has, and says what follows.
//  2. Leases of the old set end within MaxTTL.
//  3. If a quorum of the old nodes has kept its marks, no lease was renewed meanwhile. Each
//     new node whose mark is the one that was seen before the wait gets the new set, as the
//     next generation.
//
// A node that loses its data loses its mark: it is closed again, and the wait begins anew
// unless enough others have kept theirs. The operator may stand still between any two
// requests: nothing is written but in the place of what was seen. Taking a change back
// replaces the marks, in so many nodes that no quorum of the new set can open, before it
// opens the old set again.

// ErrOtherChange says that another operator changes the nodes. Run and Abort return it.
var ErrOtherChange = errors.New("another change of the nodes is under way")

// Change is a change of the nodes of a store. One operator at a time makes it.
type Change struct {
	From, To string   // URLs of the old and of the new nodes
	Options  *Options // for both
	// Say is called with each step, in words. It may be nil.
	Say func(string)
	// Force makes Abort open the old nodes even if too few of the new ones answer. Nobody else may
	// change the nodes at the same time. By default Abort returns an error then.
	Force bool

	killed func() bool // of tests that end the operator before a write
}

// Run changes the nodes. It takes MaxTTL, for which nothing is granted or renewed. If it fails or is
// interrupted, run it again, or undo it with Abort.
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

// change is what an operator knows.
type change struct {
	Change
	by    string
	limit *epoch.Limit
	nodes map[string]*redisNode // by address
	from  []string              // addresses
	to    []string
	quor  [2]int // of from and to

	seen map[string]entry // by address
	errs map[string]error
	now  entry // what the old nodes serve: the latest generation
	next nodeSet
}

func newChange(ctx context.Context, conf Change) (*change, error) {
	c := &change{Change: conf, nodes: make(map[string]*redisNode)}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	opts, old, err := parseURL(c.From, orDefault(c.Options))
	if err != nil {
		return nil, err
	}
	newOpts, next, err := parseURL(c.To, orDefault(c.Options))
	if err != nil {
		return nil, err
	}
	places := slices.Clone(old)
	for i, list := range [][]*conn.Place{old, next} {
		for _, p := range list {
			if addrs := []*[]string{&c.from, &c.to}[i]; slices.Contains(*addrs, addrOf(p)) {
				return nil, fmt.Errorf("%s is named twice: name each node once", addrOf(p))
			} else {
				*addrs = append(*addrs, addrOf(p))
			}
			if i == 1 && !slices.Contains(c.from, addrOf(p)) {
				places = append(places, p)
			}
		}
	}
	c.quor = [2]int{opts.quorum(len(old)), newOpts.quorum(len(next))}
	if n, q := len(next), c.quor[1]; q <= n/2 || q > n {
		return nil, fmt.Errorf("%d of %d nodes are no quorum: use %d to %d", q, n, n/2+1, n)
	}
	c.limit = epoch.NewLimit(opts.MaxTTL, opts.Holder)
	var who driver.Holder
	if err := json.Unmarshal([]byte(storekit.Signature(opts.Holder)), &who); err != nil {
		return nil, err
	}
	c.by = strings.ReplaceAll(who.String(), "\n", " ")
	nodes, err := dial(ctx, places, opts, nodeConfig(opts, c.limit))
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

// each calls f for all nodes at once, and keeps what they have recorded after it, or the error.
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

// put records an entry at a node that has what was seen there.
func (c *change) put(ctx context.Context, n *redisNode, was, next entry) (entry, error) {
	if c.killed != nil && c.killed() {
		return entry{}, context.Canceled
	}
	return n.record(ctx, was.raw, next, 0)
}

// look reads what all nodes have recorded, and finds out what the old ones serve.
func (c *change) look(ctx context.Context) error {
	c.each(ctx, func(ctx context.Context, _ string, n *redisNode) (entry, error) {
		if _, err := n.server.Learn(ctx); err != nil {
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

// unheard lists the nodes of these that have not answered, or belong to another store.
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

// idOf returns the id of a node: what it has recorded, or what the latest record that names its address says. It has "" if it has none.
func (c *change) idOf(addr string) string {
	if e := c.seen[addr]; e.self != "" && (e.state == isNew || e.state == isJoining || e.store == c.now.store) {
		return e.self
	}
	return cmp.Or(c.now.idAt(addr), c.idBefore(addr), c.idAfter(addr))
}

// idBefore returns the id of a node in the latest generation that knows its address: of the old nodes, once one is open
// for the new set.
func (c *change) idBefore(addr string) (id string) {
	gen := 0
	for _, e := range c.seen {
		if old := e.idAt(addr); e.founded() && e.store == c.now.store && e.gen > gen && old != "" {
			id, gen = old, e.gen
		}
	}
	return id
}

// idAfter returns the id of a new node in what closed nodes say: it may have lost its data meanwhile.
func (c *change) idAfter(addr string) string {
	for _, e := range c.seen {
		if i := slices.Index(e.addrN, addr); i >= 0 && i < len(e.next.ids) && e.state == isClosed && e.store == c.now.store {
			return e.next.ids[i]
		}
	}
	return ""
}

// is reports whether nodes at these addresses are a set, as far as they are known.
func (c *change) is(set nodeSet, addrs []string, quorum int) bool {
	for _, a := range addrs {
		if id := c.idOf(a); id != "" && !set.has(id) {
			return false
		}
	}
	return len(set.ids) == len(addrs) && set.quorum == quorum
}

// isAll reports whether they are, and all are known.
func (c *change) isAll(set nodeSet, addrs []string, quorum int) bool {
	return c.is(set, addrs, quorum) && !slices.ContainsFunc(addrs, func(a string) bool { return c.idOf(a) == "" })
}

// prepare gives each new node an id, and returns the set.
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

// addrsOf returns the addresses of the nodes of the new set, in the order of their ids.
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

func (c *change) run(ctx context.Context) error {
	var err error
	for range 5 {
		var again bool
		if again, err = c.once(ctx); !again {
			return err
		}
		c.Say("nodes have lost their data in the meantime, and with it that they are closed: the wait begins anew")
	}
	return err
}

// once makes the change, and reports whether nodes that answer have lost what it needs.
func (c *change) once(ctx context.Context) (again bool, err error) {
	if err := c.look(ctx); err != nil {
		return false, err
	}
	if err := c.prepare(ctx); err != nil {
		return false, err
	}
	if c.isAll(c.next, c.from, c.quor[0]) {
		return false, errors.New("the old and the new nodes are the same")
	}
	if c.now.set.equal(c.next) { // a change has opened some of them, or all
		if c.opened(c.now) >= c.next.quorum {
			return false, c.open(ctx)
		}
		if err := c.before(); err != nil {
			return false, err
		}
	}
	if err := c.check(); err != nil {
		return false, err
	}
	if again, err := c.drain(ctx); err != nil || again {
		return again, err
	}
	err = c.open(ctx)
	return err != nil && !errors.Is(err, ErrOtherChange) && len(c.errs) == 0, err
}

// before goes back to what the old nodes served before some have opened for the next generation.
func (c *change) before() error {
	var old entry
	for _, e := range c.seen {
		if e.founded() && e.store == c.now.store && e.gen < c.now.gen && e.gen > old.gen && c.is(e.set, c.from, c.quor[0]) {
			old = e
		}
	}
	if old.self == "" {
		return fmt.Errorf("%w: none of the old nodes says what it served: %s", driver.ErrUnavailable, c.unheard(c.from))
	}
	c.now = old
	return nil
}

// check returns an error unless From is what the store has, and no other change is under way.
func (c *change) check() error {
	if !c.is(c.now.set, c.from, c.quor[0]) {
		return fmt.Errorf("the store's nodes are %s, with a quorum of %d: name these as the old ones", strings.Join(c.now.addrs, ", "), c.now.set.quorum)
	}
	for a, e := range c.seen {
		if e.state == isClosed && e.store == c.now.store && e.gen == c.now.gen && !e.next.equal(c.next) {
			return c.other(a, e)
		}
	}
	return nil
}

func (c *change) other(addr string, e entry) error {
	return fmt.Errorf("%w: %s is closed for %s, by %s: end that one first, or take it back: pawl nodes change --abort",
		ErrOtherChange, addr, strings.Join(e.addrN, ", "), e.by)
}

// mark closes all nodes whose record gives way, and returns the marks of this change by address.
func (c *change) mark(ctx context.Context, next nodeSet, over func(entry) bool) map[string]string {
	addrN := c.addrsOf(next)
	ids := make(map[string]string)
	for a := range c.nodes {
		ids[a] = c.idOf(a)
	}
	c.each(ctx, func(ctx context.Context, addr string, n *redisNode) (entry, error) {
		is, err := n.record(ctx, "", entry{}, 0)
		switch {
		case err != nil, ids[addr] == "":
			return is, err
		case is.founded() && (is.store != c.now.store || !over(is)):
		default:
			e := c.now.as(ids[addr])
			e.state, e.mark, e.next, e.addrN, e.by = isClosed, strings.ToLower(rand.Text()[:10]), next, addrN, c.by
			if is, err = c.put(ctx, n, is, e); err != nil {
				return is, err
			}
		}
		_, err = n.server.Learn(ctx) // MaxTTL may have been raised until it was closed
		return is, err
	})
	return c.marks(next)
}

// marks returns the marks of the nodes that are closed for the set next, by address.
func (c *change) marks(next nodeSet) map[string]string {
	marks := make(map[string]string)
	for a, e := range c.seen {
		if e.state == isClosed && e.store == c.now.store && e.gen == c.now.gen && e.next.equal(next) {
			marks[a] = e.mark
		}
		if e.state == isOpen && e.store == c.now.store && e.gen > c.now.gen && e.set.equal(next) {
			marks[a] = "open" // already, so closed for the old set
		}
	}
	return marks
}

// unchanged returns how many of these nodes have the mark that they had before.
func unchanged(addrs []string, before, after map[string]string) (n int) {
	for _, a := range addrs {
		if before[a] != "" && before[a] == after[a] {
			n++
		}
	}
	return n
}

// drain closes the nodes, and waits. It reports whether too few of the old nodes have stayed closed.
func (c *change) drain(ctx context.Context) (again bool, err error) {
	over := func(e entry) bool { return e.gen < c.now.gen || e.gen == c.now.gen && e.state == isOpen }
	before := c.mark(ctx, c.next, over)
	if err := c.closed(before); err != nil {
		return false, err
	}
	if err := c.wait(ctx, "closed "+strings.Join(c.now.addrs, ", ")); err != nil {
		return false, err
	}
	after := c.mark(ctx, c.next, over)
	for _, e := range c.seen {
		if e.founded() && e.store == c.now.store && e.gen > c.now.gen && !e.set.equal(c.next) {
			return false, fmt.Errorf("%w: the nodes are %s meanwhile: this change was taken back, perhaps", ErrOtherChange, strings.Join(e.addrs, ", "))
		}
	}
	return unchanged(c.from, before, after) < c.quor[0], nil
}

// wait lasts until all leases have ended.
func (c *change) wait(ctx context.Context, why string) error {
	ttl := c.limit.Longest()
	ttl += driver.Drift(ttl)
	c.Say(fmt.Sprintf("%s; nothing is granted or renewed for %v", why, driver.ForPeople(ttl)))
	select {
	case <-time.After(ttl):
	case <-ctx.Done():
		return fmt.Errorf("leases may last for %v: %w; run it again, or take it back with --abort", ttl, ctx.Err())
	}
	return nil
}

// closed returns an error unless all new nodes and a quorum of the old ones have marks of this change, and no node has a mark of another.
func (c *change) closed(marks map[string]string) error {
	for a, e := range c.seen {
		if e.state == isClosed && marks[a] == "" && e.store == c.now.store && e.gen == c.now.gen {
			return c.other(a, e)
		}
	}
	if n := unchanged(c.to, marks, marks); n < len(c.to) {
		return fmt.Errorf("%w: %d of the %d new nodes are closed, and all have to be: %s; run it again, or take it back with --abort", driver.ErrUnavailable, n, len(c.to), c.unheard(c.to))
	}
	if n := unchanged(c.from, marks, marks); n < c.quor[0] {
		return fmt.Errorf("%w: %d of the %d old nodes are closed, and %d have to be: %s; run it again, or take it back with --abort", driver.ErrUnavailable, n, len(c.from), c.quor[0], c.unheard(c.from))
	}
	return nil
}

// open writes the next generation at all nodes that are closed for it.
func (c *change) open(ctx context.Context) error {
	next := entry{store: c.now.store, gen: c.now.gen + 1, set: c.next, addrs: c.addrsOf(c.next)}
	right := func(e entry) bool { return e.state == isClosed && e.next.equal(c.next) }
	if c.now.set.equal(c.next) {
		next.gen = c.now.gen
		if c.opened(next) >= c.next.quorum { // so a change back can no longer succeed
			right = func(e entry) bool { return e.gen < next.gen }
		}
	}
	c.write(ctx, next, right)
	if n := c.opened(next); n < len(c.to) {
		for a, e := range c.seen {
			if e.founded() && e.store == next.store && e.gen > next.gen {
				return fmt.Errorf("%w: %s serves %s meanwhile: this change was taken back, perhaps", ErrOtherChange, a, strings.Join(e.addrs, ", "))
			}
			if e.state == isClosed && e.store == next.store && !right(e) {
				return c.other(a, e)
			}
		}
		return fmt.Errorf("%w: %d of the %d new nodes serve the new set: %s; run it again", driver.ErrUnavailable, n, len(c.to), c.unheard(c.to))
	}
	c.Say("the store's nodes are " + strings.Join(next.addrs, ", "))
	return nil
}

// opened returns how many nodes serve what the entry says.
func (c *change) opened(next entry) (n int) {
	for _, e := range c.seen {
		if e.state == isOpen && e.gen == next.gen && e.set.equal(next.set) && next.set.has(e.self) {
			n++
		}
	}
	return n
}

// write records an entry at all nodes whose own is open and older, or closed and right for that.
func (c *change) write(ctx context.Context, next entry, right func(entry) bool) {
	last, ids := c.seen, make(map[string]string)
	for a := range c.nodes {
		ids[a] = c.idOf(a)
	}
	c.each(ctx, func(ctx context.Context, addr string, n *redisNode) (entry, error) {
		was := last[addr]
		ok := was.state == isOpen && was.store == next.store || was.state == isClosed && right(was) || !was.founded()
		if ids[addr] == "" || !ok || was.gen >= next.gen {
			return n.record(ctx, "", entry{}, 0)
		}
		return c.put(ctx, n, was, next.as(ids[addr]))
	})
}

// abort closes the nodes once more, for what the old ones served, and opens these. Leases of the new set end meanwhile: a
// quorum of the new nodes may have been open before some of them lost their data.
func (c *change) abort(ctx context.Context) error {
	if err := c.look(ctx); err != nil {
		return err
	}
	latest := c.now
	switch busy := c.underWay(latest.store); {
	case c.now.self == "" || latest.gen > c.now.gen && !c.is(latest.set, c.to, c.quor[1]):
		return fmt.Errorf("no change to these nodes is under way; the store's are %s", strings.Join(latest.addrs, ", "))
	case !busy:
		return errors.New("no change is under way")
	}
	after := entry{store: c.now.store, gen: max(latest.gen, c.now.gen+1) + 1, set: c.now.set, addrs: c.now.addrs}
	right := func(e entry) bool { return e.next.equal(c.now.set) }
	if latest.gen == c.now.gen && c.closedBefore(c.now) { // a change back that did not get to the end
		after.gen = c.now.gen
		right = func(e entry) bool { return e.gen < after.gen }
	} else if err := c.closeBack(ctx, latest); err != nil {
		return err
	}
	c.write(ctx, after, right)
	if n := c.opened(after); n < c.quor[0] {
		return fmt.Errorf("%w: %d of the old nodes are open again, and %d have to be: %s; run it again", driver.ErrUnavailable, n, c.quor[0], c.unheard(c.from))
	}
	c.Say("the store's nodes are " + strings.Join(after.addrs, ", ") + " as before")
	return nil
}

// underWay finds what the old nodes served before the change, and reports whether nodes are closed at all.
func (c *change) underWay(store string) (busy bool) {
	now := entry{}
	for _, e := range c.seen {
		if e.founded() && e.store == store && c.is(e.set, c.from, c.quor[0]) && (e.gen > now.gen || now.self == "") {
			now = e
		}
		busy = busy || e.state == isClosed
	}
	c.now = now
	return busy
}

// closeBack closes the nodes for the old set until all leases have ended: so many that no quorum of the new set can open, and
// all that are open for it. A client that reaches one of these only would tell nodes that lose their data to serve it.
func (c *change) closeBack(ctx context.Context, latest entry) error {
	back, need := c.now.set, len(c.to)-c.quor[1]+1
	if latest.gen > c.now.gen && c.opened(latest) >= latest.set.quorum {
		return errors.New("the new nodes are open already: to go back, change from the new ones to the old")
	}
	ahead := c.seen
	over := func(e entry) bool { return e.gen <= latest.gen && (e.state == isOpen || !e.next.equal(back)) }
	before := c.mark(ctx, back, over)
	for a, e := range ahead {
		if e.state == isOpen && e.store == c.now.store && !e.set.equal(back) && before[a] == "" && !c.Force {
			return fmt.Errorf("%w: %s serves the new set, and has to know that the change is taken back: run it again. If it will not come back, and nobody else is changing the nodes: --force",
				driver.ErrUnavailable, a)
		}
	}
	if told := unchanged(c.to, before, before); told < need && !c.Force {
		return fmt.Errorf("%w: %d of the new nodes have to know that the change is taken back, and %d do: %s; run it again. If these nodes will not come back, and nobody else is changing the nodes: --force",
			driver.ErrUnavailable, need, told, c.unheard(c.to))
	}
	if err := c.wait(ctx, "closed "+strings.Join(c.now.addrs, ", ")); err != nil {
		return err
	}
	if unchanged(c.to, before, c.mark(ctx, back, over)) < need && !c.Force {
		return fmt.Errorf("%w: too few of the new nodes have stayed closed: %s; run it again", driver.ErrUnavailable, c.unheard(c.to))
	}
	return nil
}

// closedBefore reports whether nodes are closed of generations of the same set before this one only.
func (c *change) closedBefore(now entry) bool {
	for _, e := range c.seen {
		if e.state == isClosed && e.store == now.store && (e.gen >= now.gen || !e.set.equal(now.set)) {
			return false
		}
	}
	return true
}
