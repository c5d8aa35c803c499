// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver/storekit"
)

// An oddNode is the error of a node that answers but counts as down: why, and what to do.
type oddNode struct{ text, do string }

func (e *oddNode) Error() string {
	return "it answers, but counts as down: " + e.text + ": " + e.do
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

// errStranger is the error of a node that counts as down because it has no record and no known address.
var errStranger = &oddNode{"it has no record of its id, and no node of the store was first named by this address",
	"if it has lost its data, name it by the address by which it was named first, or wait for a client that knows it; if it is new, see pawl nodes change --help"}

// twice reports whether another node has the same id, and this node is the copy: its address is not the one by which the
// id was first named. r.mu is held.
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

// differs returns an error that says how the client's set of nodes differs from the store's. r.mu is held.
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
