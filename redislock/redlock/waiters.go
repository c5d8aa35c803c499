// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

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

// readQueues adds the queues to the states of names, if the node answers. It asks only about names with waiters, so that
// ordinary names cost nothing.
func (n *redisNode) readQueues(ctx context.Context, names []string, states []nodewire.State) {
	var queues []string
	of := make(map[string]*nodewire.State) // by queue
	for i, name := range names {
		if states[i].Waiters > 0 {
			queue := n.layout.Beside(n.key(name)) + waitersSuffix
			queues, of[queue] = append(queues, queue), &states[i]
		}
	}
	var cmds []rueidis.Completed
	for _, queue := range queues {
		cmds = append(cmds, n.server.Client.B().Zrange().Key(queue).Min("0").Max("-1").Withscores().Build())
	}
	replies, err := n.server.DoMulti(ctx, cmds...)
	if err != nil {
		return // another node may answer
	}
	for i, r := range replies {
		members, _ := r.AsZScores()
		for _, m := range members {
			of[queues[i]].Queue = append(of[queues[i]].Queue, nodewire.Place{Lease: m.Member, Place: uint64(m.Score)})
		}
	}
	queues = slices.DeleteFunc(queues, func(queue string) bool { return len(of[queue].Queue) == 0 })
	cmds = nil
	for _, queue := range queues {
		var records []string
		for _, p := range of[queue].Queue {
			records = append(records, queue+":"+p.Lease)
		}
		cmds = append(cmds, n.server.Client.B().Mget().Key(records...).Build())
	}
	replies, err = n.server.DoMulti(ctx, cmds...)
	if err != nil {
		return
	}
	for i, r := range replies {
		values, _ := r.AsStrSlice()
		for k, value := range values {
			// CLIENT SEQ TOKEN TTL SET RECORD, as enqueue.lua says.
			if parts := strings.SplitN(value, " ", 6); len(parts) == 6 {
				of[queues[i]].Queue[k].Record = parts[5]
			}
		}
	}
}
