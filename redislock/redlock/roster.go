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
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// roster is the nodes of one client and what they have recorded. A node whose record does
// not fit counts as down, whatever is wrong with it: a quorum of the others is enough. The
// client is refused only if no quorum is left.
type roster struct {
	quorum  int
	addrs   []string
	settled atomic.Bool // there is a store

	founding sync.Mutex // one attempt at a time

	heads []atomic.Pointer[string] // what good nodes have recorded

	mu    sync.Mutex
	seen  []entry          // what each node has said last
	heard []driver.Instant // when; 0 if it has said nothing
	ids   []string         // who each was when it last had a record
	last  entry            // that the client went by last, and gives to nodes without a record
}

// lookAgain is after which time a node is asked again that counts as down.
const lookAgain = 100 * time.Millisecond

func newRoster(quorum int, addrs []string) *roster {
	n := len(addrs)
	return &roster{quorum: quorum, addrs: addrs, heads: make([]atomic.Pointer[string], n), seen: make([]entry, n), heard: make([]driver.Instant, n), ids: make([]string, n)}
}

// enroll gives the nodes of a client their roster.
func enroll(nodes []nodewire.Node, quorum int) {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	r := newRoster(quorum, addrs)
	for i, n := range nodes {
		n := n.(*redisNode)
		n.roster, n.at = r, i
	}
}

// An oddNode is why a node that answers counts as down.
type oddNode struct{ text, do string }

func (e *oddNode) Error() string {
	return "it answers, but counts as down: " + e.text + ": " + e.do
}

var (
	errUnheard   = errors.New("what the node has recorded is not known")
	errUnfounded = errors.New("no client has used these nodes yet")
	errChanging  = errors.New("it grants and renews nothing while the nodes are changed")
)

// learn notes what a node has recorded.
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

// stale reports whether a node has to be asked again before it counts as down.
func (r *roster) stale(node int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard[node] == 0 || driver.Now().Sub(r.heard[node]) > lookAgain
}

// base returns what the client goes by: of the store that most of its nodes belong to, the
// latest generation. r.mu is held.
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

// latest returns what the latest generation of a store is. r.mu is held.
func (r *roster) latest(store string) (latest entry) {
	sets := make(map[string]int) // of one generation: one, unless nodes have got back old data
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

// ready returns what a node has to have recorded for a request of this client, or what it
// is to record first, or why the client cannot use it.
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

// refused reports whether no quorum is left without the odd nodes. r.mu is held.
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

// judge is ready for one node. r.mu is held.
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
	if !base.set.has(id) { // whatever it was claimed for
		id = r.idOf(node, base)
	}
	if id == "" {
		return "", nil, errStranger
	}
	for _, e := range r.seen {
		if e.state == isClosed && e.store == base.store && (e.gen == base.gen || !e.next.equal(base.set)) { // a change back may be under way
			return "", nil, e.changing()
		}
	}
	told := base.as(id)
	return "", &told, nil
}

func (e entry) changing() error {
	return fmt.Errorf("%w, to %s, by %s", errChanging, strings.Join(e.addrN, ", "), e.by)
}

// misfit returns why a node does not belong to the store of the client, or nil. r.mu is held.
func (r *roster) misfit(node int, base entry) error {
	is := r.seen[node]
	odd := func(do, format string, args ...any) error { return &oddNode{fmt.Sprintf(format, args...), do} }
	switch {
	case !r.fits(base):
		return odd("name the store's nodes", "the set of nodes is another one")
	case !is.founded():
	case is.store != base.store:
		return odd("name the nodes of one store, or empty it (FLUSHALL)", "it belongs to another store than the other nodes (%s)", strings.Join(is.addrs, ", "))
	case r.twice(node):
		return odd("if its data was copied from there, empty it (FLUSHALL) and it gets its own record back", "it has the record of %s", base.addr(is.self))
	case !base.set.has(is.self):
		return odd("name the nodes that pawl nodes shows", "it does not belong to the nodes of the store")
	case is.gen == base.gen && !is.set.equal(base.set):
		return odd("empty it (FLUSHALL) and it gets the record of the others", "it has recorded another set of nodes than the others")
	}
	return nil
}

// errStranger is why a node that has no record counts as down.
var errStranger = &oddNode{"it has no record of its id, and no node of the store was first named by this address",
	"if it has lost its data, name it by the address by which it was named first, or wait for a client that knows it; if it is new, see pawl nodes change --help"}

// twice reports whether another node has the same id, and was not copied from this one. r.mu is held.
func (r *roster) twice(node int) bool {
	is := r.seen[node]
	if is.addr(is.self) == r.addrs[node] {
		return false
	}
	for i, e := range r.seen {
		if i != node && e.founded() && e.store == is.store && e.self == is.self {
			return true
		}
	}
	return false
}

// idOf returns who a node is that has no record, or "". r.mu is held.
func (r *roster) idOf(node int, base entry) string {
	for _, id := range []string{r.ids[node], base.idAt(r.addrs[node])} {
		taken := slices.ContainsFunc(r.seen, func(e entry) bool { return e.founded() && e.store == base.store && e.self == id })
		if base.set.has(id) && !taken {
			return id
		}
	}
	return ""
}

// raw returns what a node has recorded, as it was seen last.
func (r *roster) raw(node int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[node].raw
}

// odd returns why a node counts as down although it answers, or why the client is refused, or nil.
func (r *roster) odd(node int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	base, ok := r.base()
	if !ok {
		return nil
	}
	var odd *oddNode
	switch _, _, err := r.judge(node, base); {
	case !errors.As(err, &odd):
		return nil
	case r.refused(base):
		return r.differs(base)
	}
	return odd
}

// differs says how the client's set of nodes differs from the store's. r.mu is held.
func (r *roster) differs(base entry) error {
	var here, store []string
	for i, addr := range r.addrs {
		if e := r.seen[i]; e.founded() && e.store == base.store && base.set.has(e.self) {
			addr = base.addr(e.self)
		}
		here = append(here, addr)
	}
	for _, id := range base.set.ids {
		store = append(store, base.addr(id))
	}
	without := func(a, b []string) (rest []string) {
		for _, s := range a {
			if !slices.Contains(b, s) {
				rest = append(rest, s)
			}
		}
		return rest
	}
	text := "this client has another set of nodes than the store"
	if extra := without(here, store); len(extra) > 0 {
		text += ": " + strings.Join(extra, ", ") + " not in the store's"
	}
	if missing := without(store, here); len(missing) > 0 {
		text += ": " + strings.Join(missing, ", ") + " missing here"
	}
	if r.quorum != base.set.quorum {
		text += fmt.Sprintf(": the quorum is %d here, and %d in the store", r.quorum, base.set.quorum)
	}
	for i := range r.addrs {
		var odd *oddNode
		if _, _, err := r.judge(i, base); r.fits(base) && errors.As(err, &odd) {
			text += fmt.Sprintf(": %s: %s", r.addrs[i], odd.text)
		}
	}
	return storekit.Disagreef("%s; the store's is %s, with a quorum of %d: name these; to change it, see pawl nodes change --help",
		text, strings.Join(store, ", "), base.set.quorum)
}
