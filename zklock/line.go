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

	"github.com/pawl-go/pawl/driver"
)

// kind is the kind of a lease, as in driver.Request.
type kind struct {
	shared bool
	slots  int
}

func kindOf(req *driver.Request) kind { return kind{req.Shared, req.Slots} }

// marker is the part of a node's name that tells its kind. That of exclusive
// leases is Curator's.
func (k kind) marker() string {
	switch {
	case k.shared:
		return "-read-"
	case k.slots > 0:
		return fmt.Sprintf("-slots%d-", k.slots)
	}
	return "-lock-"
}

// checkKind refuses a kind whose marker nodeName does not match.
func checkKind(k kind) error {
	const most = 999999999
	if k.slots > most {
		return fmt.Errorf("zklock: %d slots: use at most %d: %w", k.slots, most, errors.ErrUnsupported)
	}
	return nil
}

// child is one node in the queue of a name.
type child struct {
	name string
	kind kind
	seq  int64
}

// nodeName matches the names of ours, of Curator's mutex and read-write lock, of
// kazoo's locks, and of package zk's Lock. The server writes the number as %010d. It
// is made when it is needed: programs import this package that use other stores.
var nodeName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:(?:^|-)(lock-)|(__lock__|__WRIT__)|(-read-|__READ__|__rlock__)|-slots([1-9][0-9]{0,8})-)(-?[0-9]{9,10})$`)
})

// parseChild reads the name of a node. ok is false if it belongs to no lease.
func parseChild(name string) (c child, ok bool) {
	m := nodeName().FindStringSubmatch(name)
	if m == nil {
		return child{}, false
	}
	c.name = name
	c.kind.shared = m[3] != ""
	c.kind.slots, _ = strconv.Atoi(m[4])
	c.seq, _ = strconv.ParseInt(m[5], 10, 64)
	return c, true
}

// line is the queue of a name, in order. The holders follow from it
// alone: they are the longest part at its front that may be held together. What is
// behind the front changes nothing in it, and so a node that has come into it
// stays there until it is deleted.
type line []child

// maxSeq is where numbers are no longer given out. The server counts in 32 bits:
// after 2147483647 comes -2147483648, which would be the first in line.
const maxSeq = 1<<31 - 1<<20

var errOverflow = errors.New("the numbers of the nodes of this name have nearly run out: " +
	"let nobody use the name for a minute or two, so that the servers remove its parent and begin anew, or use another name")

// readLine sorts the children of a name's node. Those of others are left out.
func readLine(names []string) (line, error) {
	l := make(line, 0, len(names))
	for _, name := range names {
		if c, ok := parseChild(name); ok {
			if c.seq < 0 || c.seq >= maxSeq {
				return nil, errOverflow
			}
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

// holders returns how many at the front hold the name.
func (l line) holders() int {
	for i, c := range l {
		if i > 0 && !l.together(i, c.kind) {
			return i
		}
	}
	return len(l)
}

// together reports whether a lease of kind k may be held together with the
// first i in line, which hold the name together.
func (l line) together(i int, k kind) bool {
	if i == 0 {
		return true
	}
	return k == l[0].kind && (k.shared || i < k.slots)
}

// before returns those of which the i-th in line, which does not hold the name,
// cannot come to hold it before one of them has left. Watching those few, and no
// others, nobody is woken in vain by the many.
//
//   - Exclusive: the one before it.
//   - Shared: the nearest that is not.
//   - A slot: the nearest that is not one of as many. If there is none, it
//     may hold the name when fewer than n are left of the i before it. Of any n of
//     them one must have left by then; of the nearest n, they leave last.
func (l line) before(i int) line {
	k := l[i].kind
	if k == (kind{}) {
		return l[i-1 : i]
	}
	for j := i - 1; j >= 0; j-- {
		if l[j].kind != k {
			return l[j : j+1]
		}
	}
	return l[max(0, i-k.slots):i]
}
