// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// roster is the nodes of one client, and what they have recorded. A node whose record does
// not fit counts as down, whatever the reason: a quorum of the other nodes is enough. The
// client is refused only if no quorum is left.
type roster struct {
	quorum  int
	nodes   []*redisNode
	addrs   []string
	settled atomic.Bool // there is a store

	founding sync.Mutex // lets one goroutine at a time found the store

	heads []atomic.Pointer[string] // of each good node, the head of its record; else nil

	mu    sync.Mutex
	seen  []entry          // the last entry of each node
	heard []driver.Instant // when it came; 0 if none has come
	ids   []string         // the id in the last record of each node that belonged to a store
	last  entry            // the last result of base; the client gives it to nodes without a record
}

// lookAgain is the pause between two requests to a node that counts as down.
const lookAgain = 100 * time.Millisecond

func newRoster(quorum int, addrs []string) *roster {
	n := len(addrs)
	return &roster{quorum: quorum, addrs: addrs, heads: make([]atomic.Pointer[string], n), seen: make([]entry, n), heard: make([]driver.Instant, n), ids: make([]string, n)}
}

// enroll makes the roster of a client, and gives it to its nodes.
func enroll(nodes []nodewire.Node, quorum int) {
	r := newRoster(quorum, addrsOf(nodes, nodewire.Node.Addr))
	for i, n := range nodes {
		n := n.(*redisNode)
		n.roster, n.at = r, i
		r.nodes = append(r.nodes, n)
	}
}

// addrsOf returns the addresses of nodes.
func addrsOf[T any](nodes []T, addr func(T) string) []string {
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = addr(n)
	}
	return addrs
}

var (
	errUnheard   = errors.New("what the node has recorded is not known")
	errUnfounded = errors.New("no client has used these nodes yet")
	errChanging  = errors.New("it grants and renews nothing while the nodes are changed")
)

// learn records the entry of a node.
func (r *roster) learn(node int, e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[node], r.heard[node] = e, driver.Now()
	if e.founded() {
		r.ids[node] = e.self
	}
	base, ok := r.base()
	if ok {
		r.last = base
		r.settled.Store(true)
	}
	for i := range r.heads {
		r.heads[i].Store(nil)
		if head, fix, err := r.judge(i, base); ok && err == nil && fix == nil {
			r.heads[i].Store(&head)
		}
	}
}

// stale reports whether the entry of a node is so old that the client has to read it again before the node counts as down.
func (r *roster) stale(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard[node] == 0 || driver.Now().Sub(r.heard[node]) > lookAgain
}

// base returns what the client goes by: the latest generation of the store that most of its
// nodes belong to. r.mu is held.
func (r *roster) base() (base entry, ok bool) {
	votes := make(map[string]int) // by store
	for i, e := range r.seen {
		switch {
		case e.founded():
			votes[e.store]++
		case r.heard[i] > 0 && r.last.set.has(r.ids[i]): // it has lost its record
			votes[r.last.store]++
		}
	}
	store := r.last.store
	for _, e := range r.seen {
		if e.founded() && votes[e.store] > votes[store] {
			store = e.store
		}
	}
	return r.latest(store).as(""), store != ""
}

// latest returns the latest generation of a store. r.mu is held.
func (r *roster) latest(store string) (latest entry) {
	sets := make(map[string]int) // nodes by generation and set; a generation has two sets if nodes have got back old data
	key := func(e entry) string { return fmt.Sprint(e.gen, e.set) }
	if r.last.store == store {
		latest = r.last
	}
	for _, e := range r.seen {
		if !e.founded() || e.store != store {
			continue
		}
		sets[key(e)]++
		if e.gen > latest.gen || e.gen == latest.gen && sets[key(e)] > sets[key(latest)] {
			latest = e
		}
	}
	return latest
}

// ready returns the beginning of the record that a node must have for a request of this
// client; or fix, which the node has to record first; or why the client cannot use the node.
func (r *roster) ready(node int) (head string, fix *entry, err error) {
	if head := r.heads[node].Load(); head != nil {
		return *head, nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard[node] == 0 {
		return "", nil, errUnheard
	}
	base, ok := r.base()
	if !ok {
		return "", nil, unavailable(errUnfounded)
	}
	if head, fix, err = r.judge(node, base); err == nil {
		return head, fix, nil
	}
	if r.refused(base) {
		return "", nil, r.differs(base)
	}
	return "", nil, unavailable(err)
}

// refused reports whether the odd nodes leave no quorum, or the client's set has another size or quorum than the store's. r.mu is held.
func (r *roster) refused(base entry) bool {
	left := 0
	for i := range r.seen {
		var odd *oddNode
		if _, _, err := r.judge(i, base); !errors.As(err, &odd) {
			left++
		}
	}
	return left < r.quorum || !r.fits(base)
}

func (r *roster) fits(base entry) bool {
	return len(base.set.ids) == len(r.addrs) && base.set.quorum == r.quorum
}

// judge does what ready does, but looks at this node only, even if the client is refused. r.mu is held.
func (r *roster) judge(node int, base entry) (head string, fix *entry, err error) {
	is := r.seen[node]
	switch no := r.misfit(node, base); {
	case r.heard[node] == 0:
		return "", nil, errUnheard
	case no != nil:
		return "", nil, no
	case is.state == isClosed:
		return "", nil, is.changing()
	case is.state == isOpen && is.gen == base.gen:
		return is.head(), nil, nil
	}
	id := is.self
	if !base.set.has(id) { // it has no id, or one from a claim for another set
		id = r.idOf(node, base)
	}
	if id == "" {
		return "", nil, errStranger
	}
	for _, e := range r.seen {
		if e.state == isClosed && e.store == base.store && (e.gen == base.gen || !e.next.equal(base.set)) { // an Abort may be under way
			return "", nil, e.changing()
		}
	}
	told := base.as(id)
	return "", &told, nil
}

func (e entry) changing() error {
	return fmt.Errorf("%w, to %s, by %s", errChanging, strings.Join(e.addrN, ", "), e.by)
}

// idOf returns the id of a node that has no record, or "" if it is not known. r.mu is held.
func (r *roster) idOf(node int, base entry) string {
	for _, id := range []string{r.ids[node], base.idAt(r.addrs[node])} {
		taken := slices.ContainsFunc(r.seen, func(e entry) bool { return e.founded() && e.store == base.store && e.self == id })
		if base.set.has(id) && !taken {
			return id
		}
	}
	return ""
}

// raw returns the last record of a node that the client has read.
func (r *roster) raw(node int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[node].raw
}
