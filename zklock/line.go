// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/pawl-go/pawl/driver/storekit"
)

// marker returns the part of a node's name that shows with whom its lease shares the name. For exclusive leases it is
// the marker of Curator's locks.
func marker(s storekit.Sharing) string {
	switch {
	case s.Shared:
		return "-read-"
	case s.Slots > 0:
		return fmt.Sprintf("-slots%d-", s.Slots)
	}
	return "-lock-"
}

// child is one node in the queue of a name.
type child struct {
	name    string
	sharing storekit.Sharing
	seq     int64
	parent  int64 // the transaction that made the name's node
}

// token returns the token of the lease whose node the transaction own made; see tokenOf.
func (c child) token(own int64) uint64 { return tokenOf(c.parent, c.seq, own) }

// nodeName matches the nodes of this package, of Curator's mutex and read-write lock, of kazoo's locks, and of
// package zk's Lock. The server writes the number as %010d. The first use compiles the expression, because
// programs that use other stores import this package, too.
var nodeName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:(?:^|-)(lock-)|(__lock__|__WRIT__)|(-read-|__READ__|__rlock__)|-slots([1-9][0-9]{0,18})-)(-?[0-9]{9,10})$`)
})

// parseChild reads the name of a node. ok is false if the node does not belong to a lock.
func parseChild(name string) (c child, ok bool) {
	m := nodeName().FindStringSubmatch(name)
	if m == nil {
		return child{}, false
	}
	c.name = name
	c.sharing.Shared = m[3] != ""
	c.sharing.Slots, _ = strconv.Atoi(m[4])
	c.seq, _ = strconv.ParseInt(m[5], 10, 64)
	return c, true
}

// line is the queue of a name, in order. The order determines the holders: see storekit.Front.
type line []child

// maxSeq is the first number that readLine refuses. The server counts in 32 bits: after 2147483647 comes
// -2147483648, which would be first in the queue.
const maxSeq = 1<<31 - 1<<20

var errOverflow = errors.New("the numbers of the nodes of this name have nearly run out: " +
	"let nobody use the name for a minute or two, so that the servers remove its parent and begin anew, or use another name")

// readLine returns the queue of a name from the names of the children. czxid is the transaction that made the
// name's node. readLine skips children that do not belong to a lock.
func readLine(names []string, czxid int64) (line, error) {
	l := make(line, 0, len(names))
	for _, name := range names {
		if c, ok := parseChild(name); ok {
			if c.seq < 0 || c.seq >= maxSeq {
				return nil, errOverflow
			}
			c.parent = czxid
			l = append(l, c)
		}
	}
	slices.SortFunc(l, inOrder)
	return l, nil
}

func inOrder(a, b child) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.name, b.name))
}

// index returns the place of a node, or -1.
func (l line) index(name string) int {
	return slices.IndexFunc(l, func(c child) bool { return c.name == name })
}

// holders returns the number of nodes at the front that hold the name.
func (l line) holders() int {
	return storekit.Front(l, func(c child) storekit.Sharing { return c.sharing })
}

// before returns the nodes that waiter i watches. At least one of them must go before its turn can come. They are
// few, so a release wakes few waiters.
//
//   - Exclusive: the node before it.
//   - Shared: the nearest node that is not shared.
//   - One of n slots: the nearest node that is not one of n slots. If there is none, the turn comes when fewer than n of the
//     nodes before it are left. By then one of the nearest n has gone; the nearest tend to go last.
func (l line) before(i int) line {
	own := l[i].sharing
	if own == (storekit.Sharing{}) {
		return l[i-1 : i]
	}
	for j := i - 1; j >= 0; j-- {
		if l[j].sharing != own {
			return l[j : j+1]
		}
	}
	return l[max(0, i-own.Slots):i]
}
