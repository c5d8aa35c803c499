// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

func newRecord(h *driver.Holder, why string) string {
	if h == nil {
		h = &driver.Holder{}
	}
	return storekit.Record{Holder: *h, Why: why}.String()
}

// counted is the lock of a lease, and how many nodes have it.
type counted struct {
	nodewire.Lock
	n int // nodes
}

// byLease counts the locks of each lease. The lock that most nodes have comes first.
func byLease(states []nodewire.State) []counted {
	var all []counted
	at := make(map[string]int)
	for _, s := range states {
		for _, l := range s.Locks {
			i, known := at[l.Lease]
			if !known {
				i = len(all)
				at[l.Lease] = i
				all = append(all, counted{Lock: l})
			}
			c := &all[i]
			c.n++
			// The lease has the largest token that a node has stored for it: an earlier round
			// may have left a smaller one at other nodes.
			c.Token, c.Left = max(c.Token, l.Token), max(c.Left, l.Left)
			// A node that has lost the lock and got it back reports a later time. The holder
			// has the lease since the earliest one.
			if g := l.Granted; !g.IsZero() && (c.Granted.IsZero() || g.Before(c.Granted)) {
				c.Granted = g
			}
		}
	}
	slices.SortStableFunc(all, func(a, b counted) int { return cmp.Compare(b.n, a.n) })
	return all
}

// largest returns the lock that most nodes have.
func largest(states []nodewire.State) counted {
	if all := byLease(states); len(all) > 0 {
		return all[0]
	}
	return counted{}
}

// info describes a name from its states at these nodes. The holder is the lease that most
// nodes have. If it is shared, other shared leases that may have a quorum are holders, too.
func (d *store) info(name string, states []nodewire.State) *driver.Info {
	i := &driver.Info{Name: name, Holders: []driver.Held{}}
	for _, s := range states {
		i.Token = max(i.Token, driver.Token(s.Floor))
		for _, l := range s.Locks {
			i.Token = max(i.Token, driver.Token(l.Token))
		}
	}
	all, now := byLease(states), time.Now()
	for k, l := range all {
		if k == 0 || all[0].Shared && l.Shared && d.mayHaveQuorum(l, states) {
			i.Holders = append(i.Holders, heldBy(l.Lock, now))
		}
	}
	slices.SortStableFunc(i.Holders, func(a, b driver.Held) int { return cmp.Compare(a.Token, b.Token) })
	return i
}

// mayHaveQuorum reports whether a lease has a quorum if all nodes that have not answered have it, too.
func (d *store) mayHaveQuorum(l counted, states []nodewire.State) bool {
	return l.n+len(d.members)-len(states) >= d.quorum
}

// heldBy describes the holder of a lock.
func heldBy(l nodewire.Lock, now time.Time) driver.Held {
	h := driver.Held{Lease: l.Lease, Token: driver.Token(l.Token), Acquired: l.Granted, Shared: l.Shared}
	if l.Record == "" {
		h.Who = "a client of another library"
	} else {
		r := storekit.ReadRecord(l.Record)
		h.Lease, _, _ = strings.Cut(l.Lease, ".")
		h.Holder, h.Why = r.Holder, r.Why
	}
	if l.Left >= 0 {
		h.Expires = now.Add(l.Left)
	}
	return h
}

// waitersOf describes the waiters of a name, in the order of the queues. queue has the places at all nodes.
// waitersOf leaves out holders: a holder may still be in the queue of a node that it has not asked.
func waitersOf(queue []nodewire.Place, holders []driver.Held) (all []driver.Waiter) {
	slices.SortStableFunc(queue, func(a, b nodewire.Place) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Lease, b.Lease))
	})
	known := make(map[string]bool)
	for _, h := range holders {
		known[h.Lease] = true
	}
	for _, p := range queue {
		w := driver.Waiter{}
		w.Lease, _, _ = strings.Cut(p.Lease, ".")
		if known[w.Lease] || p.Record == "" { // described already, or the place has expired
			continue
		}
		known[w.Lease] = true
		r := storekit.ReadRecord(p.Record)
		w.Holder, w.Why = r.Holder, r.Why
		all = append(all, w)
	}
	return all
}
