// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"crypto/sha1"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Two clients exclude each other only if each quorum of one client shares a node with each
// quorum of the other. So every node records the set of nodes that it serves, with the
// quorum. It checks each proposal and renewal against this record, in the same step: see
// lua/common.lua. docs/redlock-nodes.md describes the record.

// nodeSet is a set of nodes, by their ids in order, and its quorum.
type nodeSet struct {
	quorum int
	ids    []string
}

func newSet(quorum int, ids []string) nodeSet {
	return nodeSet{quorum, slices.Sorted(slices.Values(ids))}
}

func (s nodeSet) String() string {
	if s.ids == nil {
		return none
	}
	return strconv.Itoa(s.quorum) + ":" + strings.Join(s.ids, ",")
}

func parseSet(text string) nodeSet {
	quorum, ids, found := strings.Cut(text, ":")
	if !found {
		return nodeSet{}
	}
	n, _ := strconv.Atoi(quorum)
	return nodeSet{n, strings.Split(ids, ",")}
}

func (s nodeSet) has(id string) bool       { return slices.Contains(s.ids, id) }
func (s nodeSet) equal(other nodeSet) bool { return s.String() == other.String() }

// storeID returns the id of a store that begins with the nodes of set. All clients that
// found the store with these nodes compute the same id.
func storeID(set nodeSet) string { return fmt.Sprintf("%x", sha1.Sum([]byte(set.String())))[:12] }

// none stands for an empty field of a record.
const none = "-"

// The states of a node. Its first client leads it from isNew to isOpen. Only an open node
// grants and renews.
const (
	isNew     = "new"     // it has an id, which expires
	isClaimed = "claimed" // a client has claimed it for a set; the claim expires
	isKept    = "kept"    // all nodes of the set were claimed for the set; the claim stays
	isOpen    = "open"    // all nodes of the set have kept their claims
	isClosed  = "closed"  // an operator is changing the nodes
	isJoining = "joining" // an operator has given it an id, to add it to a store; clients cannot found a store with it
)

var founding = []string{"", isNew, isClaimed, isKept, isOpen}

// entry is what one node has recorded about the set that it serves.
type entry struct {
	raw   string // the record itself; empty if there is none
	self  string // the id of the node
	store string
	gen   int // a later generation replaces an earlier one
	set   nodeSet
	state string
	addrs []string // of the nodes in set.ids, as their first client named them

	// While the nodes are changed:
	mark  string   // unique to this closing of this node
	next  nodeSet  // the new set
	addrN []string // the addresses of the nodes in next.ids
	by    string   // who makes the change
}

// head is the part of a record that scripts compare.
func (e entry) head() string {
	return strings.Join([]string{e.self, cmp.Or(e.store, none), strconv.Itoa(e.gen), e.set.String(), e.state}, ";")
}

// text returns the record of the entry.
func (e entry) text() string {
	return strings.Join([]string{e.head(), cmp.Or(strings.Join(e.addrs, ","), none), cmp.Or(e.mark, none),
		e.next.String(), cmp.Or(strings.Join(e.addrN, ","), none), cmp.Or(e.by, none)}, " ")
}

func parseEntry(raw string) entry {
	e := entry{raw: raw}
	f := strings.SplitN(raw, " ", 6)
	head := strings.Split(f[0], ";")
	if len(f) != 6 || len(head) != 5 {
		return e
	}
	list := func(text string) []string {
		if text == none {
			return nil
		}
		return strings.Split(text, ",")
	}
	e.self, e.store, e.set, e.state = head[0], head[1], parseSet(head[3]), head[4]
	e.gen, _ = strconv.Atoi(head[2])
	e.addrs, e.mark, e.next, e.addrN, e.by = list(f[1]), f[2], parseSet(f[3]), list(f[4]), f[5]
	return e
}

// founded reports whether the node belongs to a store.
func (e entry) founded() bool { return e.state == isOpen || e.state == isClosed }

// as returns the entry that the node id has when it is open for the same set.
func (e entry) as(id string) entry {
	return entry{self: id, store: e.store, gen: e.gen, set: e.set, state: isOpen, addrs: e.addrs}
}

// addr returns the address by which a node was first named, or the node's id if that is not known.
func (e entry) addr(id string) string {
	if i := slices.Index(e.set.ids, id); i >= 0 && i < len(e.addrs) {
		return e.addrs[i]
	}
	return id
}

// idAt returns the id of the node that was first named by this address, or "".
func (e entry) idAt(addr string) string {
	if i := slices.Index(e.addrs, addr); i >= 0 && i < len(e.set.ids) {
		return e.set.ids[i]
	}
	return ""
}
