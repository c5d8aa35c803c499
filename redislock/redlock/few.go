// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// While one lease has a name, whoever waits for it is in the queues of a quorum of the nodes, and not of all:
// as long as all goes well the others would only have more to do. All clients choose the same nodes for a name, the
// ones whose addresses come first with it, so a lease that is handed over is at just
// these nodes, until it is renewed. The nodes of a name are others for other names.
//
// That is a saving and no rule. A node whose last request has failed is not chosen for a minute. A waiter
// that does not hear of one lease at all of those few, twice, is in the queues of all
// nodes, and so is one that finds that one of them does not answer as soon as the others. That also goes for clients that have
// chosen others, or have other addresses of the nodes. A client for which that fails twice in a row, or in more than a
// quarter of the cases, asks all nodes for a while, for whatever name: a node may be slow, or its messages are lost.

const (
	// wariness is how long a client asks all nodes. After it some round trips are lost, if nothing has changed.
	wariness = 10 * time.Second
	// failedFor is how long a node is not chosen that has failed. Nobody may have asked it since.
	failedFor = time.Minute
)

// tried records whether a few nodes have handed the name over.
func (d *Driver) tried(ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok {
		d.short = max(0, d.short-1)
	} else if d.short += 3; d.short >= 6 {
		d.short, d.wary = 0, driver.Now().Add(wariness)
	}
}

// few returns a quorum of nodes for the queue of a name, or nil if all are to be asked.
func (d *Driver) few(name string) []int {
	d.mu.Lock()
	wary := driver.Now() < d.wary
	d.mu.Unlock()
	if wary || d.quorum == len(d.members) {
		return nil
	}
	type ranked struct {
		node int
		rank [sha256.Size]byte
	}
	var all []ranked
	for i, m := range d.members {
		if m.well() {
			all = append(all, ranked{i, sha256.Sum256([]byte(m.Addr() + " " + name))})
		}
	}
	if len(all) < d.quorum {
		return nil
	}
	slices.SortFunc(all, func(a, b ranked) int { return bytes.Compare(a.rank[:], b.rank[:]) })
	var nodes []int
	for _, r := range all[:d.quorum] {
		nodes = append(nodes, r.node)
	}
	return nodes
}

// without returns all nodes but some.
func (d *Driver) without(some []int) []int {
	return slices.DeleteFunc(slices.Clone(d.every), func(i int) bool { return slices.Contains(some, i) })
}

// well reports whether the node has answered the last request, as far as that tells anything of now.
func (m *member) well() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed == 0 || driver.Now().Sub(m.failed) >= failedFor
}
